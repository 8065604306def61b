"""Hashes that other systems made of one password, each with its own library: Django 5.2.19, libpass 1.9.4 (passlib's successor), Werkzeug
3.1.9, argon2-cffi 25.1.0, bcrypt 5.0.0, passlib 1.7.4, PHP 8.2.32, and for Node argon2 0.45.1, bcryptjs 3.0.3, scrypt-kdf 4.0.0,
better-auth 1.7.25, passport-local-mongoose 9.2.0 and its own `crypto`; and the vectors that others publish.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.sources import ScryptSettings

TYPED: Final = "Grünes Gras, früh im Jahr"

MADE: Final[Mapping[str, str]] = {
    "django pbkdf2_sha256": "pbkdf2_sha256$1000$tLQTqFqoL7LQkT5yJ1aPbH$OucPiX+q5J2MuVFqcGcvBkzAJNMU2fCV4KUl2Hqz43E=",
    "django pbkdf2_sha1": "pbkdf2_sha1$1000$tLQTqFqoL7LQkT5yJ1aPbH$9xSr3D+JyFKPEQcgk2Rb1kAHdMs=",
    "django argon2": "argon2$argon2id$v=19$m=8192,t=2,p=2$dExRVHFGcW9MN0xRa1Q1eUoxYVBiSA$Fl7j2RLWyjou/a+UQLp9y0cCEBkPlLsyzHrZakxbXfk",
    "django bcrypt_sha256": "bcrypt_sha256$$2b$04$JFT8UptRQTgSHkwGnm4Cd.Va4F9EEffJKHgpQvMWhA33K8r55k4mm",
    "django bcrypt": "bcrypt$$2b$04$oM1XZ0HwN7qphjCcrOFwIuxriWP9tiDpGRthv3Ouug7pfydaQyFAW",
    "django scrypt": (
        "scrypt$16384$tLQTqFqoL7LQkT5yJ1aPbH$8$5$weIa8K2tJUp2cVz5NKZM2WHGqoRrIHqTuXw99XBHmZ1L9cATc+msp51YLp2vcoyPpwu5U3Kvv19HpMnl04rYTA=="
    ),
    "passlib pbkdf2_sha1": "$pbkdf2$1000$AODc2zuHMKb0fo9RqlVqbQ$fo.3Of3RFBxHjsKpnLltBFt.4Xk",
    "passlib pbkdf2_sha256": "$pbkdf2-sha256$1000$TWltzZkTAoAwRohRitHamw$.kKoVTWb6HrNCtx3njkAan50RW0ZeG.WC/KDx8eiMUI",
    "passlib pbkdf2_sha512": (
        "$pbkdf2-sha512$1000$K0UIIcSY877Xes95T0npfQ$7hFgdIhG/CMi8hRePzbyRumWk5MwPq4wLQVozGQzSRPTptIxIv.sv1FJNq9gUnwLov.v4YJgkkbVmwi8sPAy4w"
    ),
    "passlib ldap_pbkdf2_sha256": "{PBKDF2-SHA256}1000$ztlbK0UIAUDoHUMIgTBmbA$oz7Xfg.v0K0lH7vP4IOir6/P2ePqqCYpoIqG3zbd6EA",
    "passlib ldap_pbkdf2_sha1": "{PBKDF2}1000$o7SWMoZQijEmRGjNGcP4fw$oq23jdNea.JUsTH2rpRspwLUJfY",
    "passlib sha256_crypt": "$5$V0ixx1fsco6.0Rd8$wRmYqcSaeO15roTXNNq6fR5LmsbCSkD9TbDIeDT47f2",
    "passlib sha256_crypt rounds": "$5$rounds=1234$rsPkSHiFiaB.9zOq$V.ozfexZPkIfSmDbRcHF.Wm0Pa78Jl2E2.ZITuf0Mk1",
    "passlib sha512_crypt": ("$6$AY.mZol2g/zYlqGy$g4tJ2oevuVhKcdnRCMxVjbx.L9Z1omUdO/SDRI1GnUPn4oWhAZKT5jbqLk5kkYGae4JLvQZBkgAbZVs2u2wGU/"),
    "passlib sha512_crypt rounds": (
        "$6$rounds=1777$7hjEHjmvmnHJCM1o$Xh0ZSgOdyP3OksTW1JR.NnT4rPobX/yA5tbDHbA/B7sJOSFcfmYQhy7.xYQgoHioVkVVWk6f8A6k4tZh2KYtk/"
    ),
    "passlib bcrypt": "$2b$04$E28XPXV4JNWVyKfA365MoecSQIvGcJjNrOUhXkvJzsylmUUKkLEtG",
    "passlib bcrypt_sha256": "$bcrypt-sha256$v=2,t=2b,r=4$eyVDlRIl6YTNToH2Yembye$q9fU3uoaB71z/IxyEJX4rq86FbnWxUS",
    "passlib scrypt": "$scrypt$ln=10,r=8,p=1$VCqllHLOude6t3YOAcC41w$sVGTxBeejXUq4zI93NQGE9MToIr6xu7q0tSXEYdP8Tc",
    "passlib ldap_salted_sha1": "{SSHA}m4F149W/9MfTi4Oiky+3gV1BmYn2vtf6",
    "passlib ldap_salted_sha256": "{SSHA256}kIIuvfnHDKcyVL/ed//kHUrIp92aCaAESfJmkMOdg9Fdy7mXkrLWOg==",
    "passlib ldap_salted_sha512": (
        "{SSHA512}urK7czSbEPr7AdLmY7kFOdl1xGLfswGJiTz+vOzRXb9pVp0B7DUCreRCTB4rDmwB70QV/uaEdSUrvimJo6bxoRuj9P7fu5cy"
    ),
    "argon2-cffi D": "$argon2d$v=19$m=512,t=3,p=2$zSbEAM9w3RdziFRDSi2KPg$9I5Sgptp9FIs1aVTdS1tkfhtoRN5mO8E",
    "argon2-cffi I": "$argon2i$v=19$m=512,t=3,p=2$3ngeyt1V/Zi2J/WJhG8vOg$4rLDJ33aqEWEXHTloMPtZCzYrCkIyw4+",
    "argon2-cffi ID": "$argon2id$v=19$m=512,t=3,p=2$Trb1BwTpzD2yXmd6EnaWdQ$OQa0L19YW3Y5H+k9687qPXLMfNYkfdPA",
    "argon2-cffi version 16": "$argon2i$v=16$m=256,t=2,p=1$c2FsdHNhbHQ$olcHgoRUgLHroMRE61/19F8T4mhnR1KeYxP6D5ggtNY",
    "werkzeug pbkdf2 sha256": "pbkdf2:sha256:1000$fxwMLs2g5Vh6HKHZ$08508871ae72794b94d27534e12c2e23ee6ba81b147af0a77798fbfef8a5b507",
    "werkzeug pbkdf2 sha512": (
        "pbkdf2:sha512:1000$3DEx4bho7qXnMPqU$83be4eb866e5ce5d5907885e78ca7d18671126d441eb8b81c5b9602eb7e68895"
        "24be38e99e017dc4f676fe0b926f3c6d90de837ef23d5bdf6ea17aa616c8f052"
    ),
    "werkzeug scrypt": (
        "scrypt:1024:8:1$OY5bCt3BMrfF7TG4$71275f0ba7e689021488eb8f8f424ce154208469a826f183fabc5286506c8d60710"
        "17c80d884e140dd62adf8a699b4b8cd3918df15fb4379484d060514051a9a"
    ),
    "bcrypt 2a": "$2a$04$4VQvJq251BMN4MJ0PmoM9ulmzzzIrkSEHdyDnDIcNROmcqqDiKoHa",
    "bcrypt 2b": "$2b$04$MX4G.dyCd0WCiTxvLB05aOcSpijEujiKSZ2mUilN8PY7nC9txXFUu",
    "bcrypt 2y": "$2y$04$EyMo/wWPswTrNk5SRKK1buFkkP39eMyCAGdDQwO3kWU2jSZ72is86",
    "npm argon2d": ("$argon2d$v=19$m=8192,p=2,t=2$tDsFrxU9AyqEbD2Xx69TzQ$YumBxUIFzbUXHcvKfNvGiLcgWoSIWFb08+jxMRFftoI"),
    "npm argon2i": ("$argon2i$v=19$m=8192,p=2,t=2$cYu6WAssfMbI80rPjvkyFA$9quWJRZxSpOxvegV34EjA0jBsLLTo2kjVp93MyteMS0"),
    "npm argon2id": ("$argon2id$v=19$m=8192,p=2,t=2$RjcimN9t42gBnmbq/U4l5A$obPWWR1uBFBFhFtEU41loXN9h2RLOzfTU4cgkp311Oc"),
    "npm bcryptjs": "$2b$04$Uj2WzcWMKSlBHu5zmwfjYeSE2mjAmaqMVCcMBpS5mV3VNCoWNzxze",
    "npm scrypt-kdf": (
        "c2NyeXB0AAoAAAAIAAAAAajnPhOuPqQJGPc59ngIfVcDfJgMwfgK0CC5BOdnhWbjVJSEPi7dElD4kLnsWwLVyLWRiD5ROeDfOEjMtlD72b3Fc7fC9V22+gQCE/hepJuv"
    ),
    "php bcrypt": "$2y$04$6WkYdipxnerwoUXB3ZU7jegQJUplYjiZzXChEx7TFr3TMvA7iK1Te",
    "php argon2i": ("$argon2i$v=19$m=8192,t=2,p=1$WXZrLmJrZm9nbjFhcjR4RQ$NiXrHVU6a2ITaI15e00I1v8e9v7HDFEoLbpXGcAjC2M"),
    "php argon2id": ("$argon2id$v=19$m=8192,t=2,p=1$LjR4TERFbE9kcGZzaC8wZg$TInafkXOU35ws0BosUy9wwPtBq1cYGH582z5B4jObIE"),
    "php wordpress 6.8": "$wp$2y$04$GFM6GflFtXmph38afVWVQOS4haXV4scC9SNKaTcjOYbR5ePFDiWoq",
    "passlib phpass": "$P$5STG2mH.eQJI8LCK.n.vhv4cCFpk09.",
    "passlib phpass of phpBB": "$H$5p51Mac6AdxGrU2WL4m.AguECcjrgx1",
    "passlib atlassian_pbkdf2_sha1": "{PKCS5S2}sDYG4Pyf857zXktJiZGyNquiSfugoPkoHd45DStNFLxwBESN5tkHZVUm04EoKqav",
}

# Each with its password.
PUBLISHED: Final[Mapping[str, tuple[str, str]]] = {
    # "Unix crypt using SHA-256 and SHA-512", Ulrich Drepper; and `openssl passwd` says the same.
    "SHA-256": ("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
    "SHA-256, rounds": ("$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA", "Hello world!"),
    "SHA-512": (
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "Hello world!",
    ),
    "SHA-512, rounds": (
        "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
        "Hello world!",
    ),
    # RFC 7914, section 12, as a PHC string.
    "scrypt": (
        "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw",
        "pleaseletmein",
    ),
    # crypt_blowfish.
    "bcrypt": ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"),
}

# By the form that whoever imports them names: the text, and the salt where it stands for itself.
FORMED: Final[Mapping[str, tuple[str, str, str]]] = {
    "npm better-auth": (
        "better-auth",
        (
            "c37dcd25feb27cba2e4466d7bb6cfb21:fe1d435fb060a021b7cdb3f433f210da3ed5ce3f24a4711005fde2f9c9f9bec3faa782ace6e0f"
            "59dad8147e3e608fb7f040526b7e37978e9b3cdd6fe0a6c3b8c"
        ),
        "",
    ),
    "node scrypt, salt:digest": (
        "node-scrypt",
        (
            "82ff96d94c2f34e059ef69967e9766aa:969037b6d20326363f11a07406952c83f20d37d37de81a5bd1e33ccabe485ffdc0d190628f850"
            "994f207ac0093ed9db9164e9a6061d88298ceb549d4ae8cc2b4"
        ),
        "",
    ),
    "node scrypt, digest.salt": (
        "node-scrypt:n=16384",
        (
            "969037b6d20326363f11a07406952c83f20d37d37de81a5bd1e33ccabe485ffdc0d190628f850994f207ac0093ed9db9164e9a6061d882"
            "98ceb549d4ae8cc2b4.82ff96d94c2f34e059ef69967e9766aa"
        ),
        "",
    ),
    "node scrypt, bytes": (
        "node-scrypt-bytes",
        (
            "d340bde94e72aeb20e29e31b2b06d0e0:9400a8140331d8279fa23e6f0bc47480345060bb0988e052177bb8506ea23b5c58ee73d42fc58"
            "a5095a7924d8e34b2415222f13a012c5944a523a6b4e934c750"
        ),
        "",
    ),
    "npm passport-local-mongoose": (
        "passport-local-mongoose:i=1000",
        (
            "e0caf7965c2edf83ad45a38bafbc0d63bd468cd1ab8a1321a48adc04b8be2293e6cce5bf631c77920506896d5cfd89e2783aea25b6b791"
            "a8cf44944a2f4dac36f7401fa19cccd38a46b2ec7a85756a15791d4948ba6816a6db14bba1c4a1f24ebda544191ce398e24a6d80844675"
            "82f1f5c5bdb46ac3b9bb6d1861d2fcbeb8dca84551b7350393400e186cbac1bc051ae11c5b9c93666106c975b7d780f7fd63e5b8337adc"
            "64c186aa88065ef0160808a1fde7b6eca0414c50904f7d18d1c2f12236a2d38433fdb68c5f6eb4487339a8728bec224eb62a321b43908c"
            "45112347ec9772c08635328cfc07930584a8d1db0d356947351b9bc75572a515d93c3966599ff99ba2d75974ba9f0d4fc5bbcdb30606f2"
            "98ec0a1b24869c1f374dfcc278cdbaf5543620272a8d98af96dfb3f0cf42942af518765acb55c67c899fb98cb79b5efcd9916409343cf6"
            "b153750debff10fbdab6db0661b9bd9aa3eb7f151e9c8df2e2ae5007692821eca84ee0f9f4a84ce824bb1d63ae4e6122f35262c1d4ba0a"
            "fab479e562bf8ddf50dcf7aa89c8b525ece93baf9d156d3f09969a8988edc6cb81682a2130437f9bfd2e37db76494098b776a9e891f8b7"
            "980c24f0ee848e5a8dddb3bf57665a6dd8a76082bd19986b05d1fdc934aa077c993a2a139b04cec775addb6aa44af0f2d140bcebaa7d88"
            "d9abf2bfc6fbc0df63fbd64dea4b3644b2"
        ),
        "d8ffb44b9baf500e0897d4f9f6a5cc8e87e3fecc19961c5759589e792dd3c832",
    ),
}
# What is told of kinds that are not read: MD5, plain SHA, and whatever needs a library of its own.
UNREAD: Final[Mapping[str, tuple[str, str]]] = {
    "passlib md5_crypt": ("$1$oI6T9VQw$6MqJ7RjwdGUHOXr.W3TGw1", "$1$"),
    "passlib apr_md5_crypt": ("$apr1$rwsLw20X$778VxKXLtqWwgFP9NG4IF.", "$apr1$"),
    "passlib sun_md5_crypt": ("$md5,rounds=34000$cQLcgEku$$SS85/YyTJDjXiYbhN4jHa0", "$md5"),
    "passlib sha1_crypt": ("$sha1$480000$T2gF1ukq$sjy4koTcpahAlZ5aPDSTvGAVPsMB", "$sha1$"),
    "passlib hex_md5": ("47b36222421d884ad956503689cc60d7", "32 hexadecimal digits"),
    "passlib hex_sha1": ("c62d5cfeaba3b37f17d941b3f5f08b90e693e3f3", "40 hexadecimal digits"),
    "passlib hex_sha256": ("d6d7dc5f73834c58d55e32264202036b7c110d13e61757fb325ec5771d5d0a54", "64 hexadecimal digits"),
    "passlib ldap_md5": ("{MD5}R7NiIkIdiErZVlA2icxg1w==", "{MD5}"),
    "passlib ldap_salted_md5": ("{SMD5}+9nt+PEvvH3r3/8mB5+aQnUOwTg=", "{SMD5}"),
    "passlib ldap_sha1": ("{SHA}xi1c/qujs38X2UGz9fCLkOaT4/M=", "{SHA}"),
    "passlib django_salted_md5": ("md5$lLM3JK2CptkM$63aa73cde3ef10c3163954485b4057ae", "md5$"),
    "passlib django_salted_sha1": ("sha1$ef2SVpRqCqZc$95b456e10fde04a421d5ad83643f3cf0b02762f5", "sha1$"),
    "passlib mysql41": ("*7FF2DE60FCBC1037D429DF6799053D2D79B732C8", "MySQL"),
    "django, no password": ("!8BFRw5mJgz9PvXkRA8VzV6LJcsmGqvRNRZ0Zrz2l", "There is no password"),
}

# Firebase's: github.com/firebase/scrypt, README.
FIREBASE: Final = ScryptSettings(
    signer_key="jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==",
    salt_separator="Bw==",
    rounds=8,
    memory_cost=14,
)
# As the console of a project shows its parameters.
FIREBASE_SHOWN: Final = """hash_config {
  algorithm: SCRYPT,
  base64_signer_key: jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==,
  base64_salt_separator: Bw==,
  rounds: 8,
  mem_cost: 14,
}
"""
FIREBASE_SALT: Final = "42xEC+ixf3L2lw=="
FIREBASE_HASH: Final = "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
FIREBASE_PASSWORD: Final = "user1password"

_SALT: Final = "AAECAwQFBgcICQoLDA0ODw=="

# The objects of `credentialData` and `secretData`, as a realm export of Keycloak 26 has them, for `TYPED`.
KEYCLOAK: Final[Sequence[tuple[Json, Json]]] = [
    (
        {"hashIterations": 210000, "algorithm": "pbkdf2-sha512", "additionalParameters": {}},
        {
            "value": "z6vJXHrPrNd/ue7oMdvr+mHRub3WOI97C0u5ObjKUFHMb1oZ6dglsy96Z4nYdA59O69Y87jYiqwZcxSOQgm7sQ==",
            "salt": _SALT,
            "additionalParameters": {},
        },
    ),
    (
        {"hashIterations": 27500, "algorithm": "pbkdf2-sha256", "additionalParameters": {}},
        {"value": "UxYl+G/OewKctr9GT12JkAh53rTGHdsoDpBQoPckjUrIEnUXRG8foHzuMurHseJB+vtPWDZtrVL0hzbK0UdFdA==", "salt": _SALT},
    ),
    (
        {
            "hashIterations": 5,
            "algorithm": "argon2",
            "additionalParameters": {
                "hashLength": ["32"],
                "memory": ["7168"],
                "type": ["id"],
                "version": ["1.3"],
                "parallelism": ["1"],
            },
        },
        {"value": "Tq8Xl72T+V5ny2TGz8FWfzOLV4FyZ4rYUu7RSzfmTJw=", "salt": _SALT, "additionalParameters": {}},
    ),
]
