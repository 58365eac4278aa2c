"""What changes to a large managed plan cost: the CPU time of each answer that an editor waits for.

    make bench-managing
    .venv/bin/python bench/managing.py --prefixes 20000

Makes a plan of ranges, routes and ENUM entries (100,000 by default) in an SQLite database, and sends the
service of `weir web --voice` the requests of its page. Times are CPU times of the whole process, so they do
not include the browser or other programs. The check of the whole plan, which normally follows in the
background, is timed separately. Needs no root.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi.testclient import TestClient
from rich.console import Console
from rich.table import Table

from weirlab.numbering.managing.accounts import Accounts
from weirlab.numbering.managing.database import opened
from weirlab.numbering.managing.register import Register
from weirlab.numbering.plan import loads
from weirlab.numbering.plan.model import EnumEntry, Naptr, NumberingPlan, PlanRoute, Range
from weirlab.store import Store
from weirlab.web.service import service
from weirlab.web.settings import VoiceSettings, WebSettings

PASSWORD = "a weir holds water"
ORIGIN = "http://127.0.0.1:29180"
ORGANISATIONS = 50

HEAD = f"""\
plan: large
caller: phone
dns: {{primary: ns.example.net, contact: hostmaster@example.net}}
organisations: {{{", ".join(f"org{number}: {{}}" for number in range(ORGANISATIONS))}}}
engines:
  phone: {{kind: endpoint, protocols: [sip], address: 192.0.2.1, codecs: [alaw], home: core}}
  core: {{kind: proxy, address: 192.0.2.2, trees: [public]}}
  desk: {{kind: endpoint, protocols: [sip], address: 192.0.2.5, host: desk.example.net, codecs: [alaw]}}
  pbx: {{kind: endpoint, protocols: [sip], address: 192.0.2.6, codecs: [alaw]}}
trees: {{public: {{suffix: e164.arpa, zone: 0.2.4.e164.arpa}}}}
domains:
  example.net: {{hosts: {{ns.example.net: 192.0.2.53}}, services: [{{target: desk.example.net}}]}}
"""


def made(prefixes: int) -> NumberingPlan:
    """A plan with ``prefixes`` items: a fifth ranges, two fifths entries, two fifths routes."""
    naptr = (Naptr(service="E2U+sip", uri="sip:\\1@example.net"),)
    fifth = prefixes // 5
    ranges = [Range(prefix=f"+4202{n:06}", owner=f"org{n % ORGANISATIONS}", digits=12) for n in range(fifth)]
    entries = [EnumEntry(tree="public", prefix=f"+4202{n:06}", naptr=naptr) for n in range(fifth)]
    entries += [EnumEntry(tree="public", number=f"+4202{n:06}77", naptr=naptr) for n in range(fifth)]
    routes = [
        PlanRoute(at="core", prefix=f"+4202{n:06}{d}", to=("desk", "pbx"))
        for n in range(fifth)
        for d in (8, 9)
    ]
    plan = loads(HEAD).plan
    return plan.model_copy(update={"ranges": tuple(ranges), "enum": tuple(entries), "routes": tuple(routes)})


class Editor:
    """A signed-in user, and the cost of each answer."""

    def __init__(self, client: TestClient, name: str) -> None:
        self._client = client
        self.costs: list[tuple[str, float]] = []
        asked = {"name": name, "password": PASSWORD}
        client.post("/api/voice/session", json=asked).raise_for_status()
        user = client.get("/api/voice/session").json()["user"]
        self._headers = {"X-Weir-Form": user["form_key"]}

    def get(self, what: str, path: str) -> Any:
        return self._timed(what, lambda: self._client.get(f"/api/voice/{path}"))

    def post(self, what: str, path: str, body: dict[str, Any]) -> Any:
        return self._timed(
            what, lambda: self._client.post(f"/api/voice/{path}", json=body, headers=self._headers)
        )

    def _timed(self, what: str, act: Callable[[], Any]) -> Any:
        begun_s = time.process_time()
        answer = act()
        self.costs.append((what, time.process_time() - begun_s))
        answer.raise_for_status()
        return answer.json()


def edited(editor: Editor) -> None:
    """The requests of an editor: view the plan, and add, change, remove and undo."""
    editor.get("overview", "parts")
    editor.get("a page of routes", "items/routes")
    found = editor.get("search among entries", "items/enum?find=%2B420200007777")["pieces"][0]
    # The numbers of org7 begin with this prefix.
    entry = {"tree": "public", "number": "+420200000711", "naptr": found["content"]["naptr"]}
    event = editor.post("add an entry", "items/enum", {"content": entry})["event"]
    content = {**entry, "owner": "org7"}
    asked = {"content": content, "revision": event["id"]}
    event = editor.post("change an entry", f"item/{event['item']}", asked)["event"]
    editor.post("undo", f"history/{event['id']}/undo", {})
    piece = editor.get("look at an entry", f"item/{event['item']}")
    editor.post("remove an entry", f"item/{event['item']}/remove", {"revision": piece["revision"]})
    numbers = {"prefix": "+42020000075", "owner": "org8", "digits": 12, "delegated_by": "org7"}
    event = editor.post("add a range", "items/ranges", {"content": numbers})["event"]
    editor.post("remove a range", f"item/{event['item']}/remove", {"revision": event["id"]})
    editor.get("overview after changes", "parts")


def administered(editor: Editor) -> None:
    """The requests that only administrators may make."""
    route = {"at": "core", "prefix": "+42020000071", "to": ["pbx"]}
    event = editor.post("add a route", "items/routes", {"content": route})["event"]
    asked = {"content": {**route, "to": ["desk"]}, "revision": event["id"], "accept": True}
    editor.post("change a route", f"item/{event['item']}", asked)
    engine = editor.get("search among engines", "items/engines?find=pbx")["pieces"][0]
    asked = {"content": {**engine["content"], "address": "192.0.2.7"}, "revision": engine["revision"]}
    editor.post("change an engine", f"item/{engine['id']}", asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prefixes", type=int, default=100_000)
    asked = parser.parse_args()
    table = Table("Answer", "CPU time, ms", title=f"A plan of {asked.prefixes:,} ranges, entries and routes")
    with TemporaryDirectory() as folder:
        database = opened(f"{folder}/plan.db", new=True)
        register = Register(database)
        register.begin("bench", made(asked.prefixes), "plan.yaml")
        accounts = Accounts(register)
        accounts.add("bench", "root", PASSWORD, None)
        accounts.add("bench", "orla", PASSWORD, "org7")
        database.close()
        settings = replace(WebSettings(), voice=VoiceSettings(f"{folder}/plan.db"))
        begun_s = time.process_time()
        with service(settings, Store(Path(folder) / "store")) as running:
            desk = running.app.state.voice
            # Keep background work out of the times of the answers.
            desk.register._large = lambda state: None
            desk.register.state().complete()
            table.add_row(
                "start of the service, with a check of the whole plan", _ms(time.process_time() - begun_s)
            )
            client = TestClient(running.app, base_url=ORIGIN)
            for name, acts in (("root", (edited, administered)), ("orla", (edited,))):
                editor = Editor(client, name)
                for act in acts:
                    act(editor)
                for what, cost_s in editor.costs:
                    table.add_row(f"{name}: {what}", _ms(cost_s))
                desk.register.state()
            begun_s = time.process_time()
            problems = desk.register.state().complete()
            table.add_row(
                f"check of the whole plan ({len(problems)} found)", _ms(time.process_time() - begun_s)
            )
    Console().print(table)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}"


if __name__ == "__main__":
    main()
