"""Mail domains where anybody can have a mailbox. Their owners do not use Postern to tell their customers where to sign in, so anybody who
can publish a proof there has found a security hole of the domain. The list need not be complete: the proof is the main protection.
"""

from typing import Final

_DOMAINS: Final = """
    126.com 163.com aim.com aol.com att.net bluewin.ch bol.com.br btinternet.com comcast.net duck.com email.it fastmail.com fastmail.fm
    freemail.hu freenet.de gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.fr gmx.net googlemail.com hey.com hotmail.co.uk hotmail.com
    hotmail.de hotmail.es hotmail.fr hotmail.it hushmail.com icloud.com inbox.lv inbox.ru interia.pl laposte.net libero.it list.ru
    live.co.uk live.com live.fr live.nl mac.com mail.com mail.de mail.ru mailbox.org me.com msn.com naver.com o2.pl onet.pl orange.fr
    outlook.com outlook.de outlook.es outlook.fr posteo.de posteo.net proton.me protonmail.ch protonmail.com qq.com rambler.ru
    rediffmail.com riseup.net rocketmail.com sapo.pt seznam.cz sfr.fr sina.com t-online.de terra.com.br tuta.com tutanota.com
    tutanota.de ukr.net uol.com.br virgilio.it wanadoo.fr web.de wp.pl yahoo.ca yahoo.co.in yahoo.co.jp yahoo.co.uk yahoo.com
    yahoo.com.br yahoo.de yahoo.es yahoo.fr yahoo.it yandex.com yandex.ru yeah.net ymail.com zoho.com
"""
FREE_MAIL: Final = frozenset(_DOMAINS.split())
