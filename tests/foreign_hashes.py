"""Hashes that other systems made of one password, each with its own library: Django 5.2.19, libpass 1.9.4 (passlib's successor), Werkzeug
3.1.9, argon2-cffi 25.1.0 and bcrypt 5.0.0; and the vectors that others publish.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.identity.foreign_hashes.sources import ScryptSettings
from core.domain.json import Json

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

# Firebase's: github.com/firebase/scrypt, README.
FIREBASE: Final = ScryptSettings(
    signer_key="jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==",
    salt_separator="Bw==",
    rounds=8,
    memory_cost=14,
)
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
