"""``weir web``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

import typer

from weirlab.base.errors import InputError
from weirlab.base.extras import MANAGE, WEB
from weirlab.cli import options
from weirlab.cli.options import grouped
from weirlab.cli.output import LinesOption, Session, say
from weirlab.cli.streams import READER
from weirlab.web.settings import (
    LOOPBACK,
    PORT,
    Network,
    TestLimits,
    VoiceSettings,
    WebSettings,
    bind,
    check,
    domain_name,
    name_server,
    network,
)

WEB_HELP = """Serve runs, captures and live tests to a browser, until Ctrl-C.

The page lists the runs of the store, opens their reports and compares two.
It takes captures (pcap, pcapng; also compressed) and draws their TCP
connections down to the packet. It runs TCP tests against a host that runs
weir tcp serve, or between two such hosts, and draws them live. Every capture
and test has a data ID, by which another session finds it again. With
--allow-run, it also starts scenarios (weir run) and shows their progress;
those with network namespaces need root.

Started by root, the service becomes another user without privileges. A helper
process stays root: it starts the processes that read captures, record packets
and carry out scenarios.

It listens on loopback by default: anyone with an account on this host can use
it. Any other address needs a token of 16 characters or more, which each
browser must enter once. The connection is not encrypted; put a proxy with TLS
in front of it if others could listen in, and name its address with --proxy.

With --allow-watch, it says live why connections of this host are not faster,
as weir tcp why does.

With --tests, it also tests the connections of browsers and other ndt7 clients
to this host, one at a time: ten seconds each way, and why it was not faster.

With --voice, organisations can also sign in to change a numbering plan that
weir voice manage keeps, and to publish its zones.

With --json, every event is a JSON document on its own line, and the summary
of the service is the last line.

Examples:
  weir web
  weir web --bind :8080 --store /mnt/lab/weir
  WEIR_WEB_TOKEN=$(openssl rand -hex 16) weir web --bind 192.0.2.1
  weir web --allow-run
  weir web --max-upload 20GB --max-memory 8GB --json
  weir web --keep-days 30 --keep-size 100GB
  weir web --bind 192.0.2.1 --token SECRET --tests --tests-rate 100Mbit/s
  weir web --voice plan.db --voice-zones /var/lib/bind/weir
"""


@dataclass(frozen=True)
class WebListenOptions:
    """Where to listen, and to whom."""

    bind_to: Annotated[
        str,
        typer.Option(
            "--bind", help="Address and port to listen on; port 0: any free port.", metavar="ADDRESS:PORT"
        ),
    ] = f"{LOOPBACK}:{PORT}"
    token: Annotated[
        str,
        typer.Option(
            "--token",
            help="Secret that users must enter.",
            envvar="WEIR_WEB_TOKEN",
            metavar="TEXT",
            show_default=False,
        ),
    ] = ""
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            help="A trusted proxy, which reports the addresses of its clients; repeatable.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None

    def proxies(self) -> tuple[Network, ...]:
        """The parsed addresses or networks of proxies."""
        return tuple(network(each, "--proxy") for each in self.proxy or ())


@dataclass(frozen=True)
class ClientTestOptions:
    """Tests of the connections of clients."""

    PANEL: ClassVar = "Transfer tests"

    tests: Annotated[
        bool,
        typer.Option(
            "--tests",
            help="Test the connection of any browser or ndt7 client that reaches the service; no token is "
            "needed.",
        ),
    ] = False
    tests_rate: Annotated[
        str, typer.Option("--tests-rate", help="Maximum rate of a test; 0: no limit.", metavar="RATE")
    ] = "1Gbit/s"
    tests_bytes: Annotated[
        str,
        typer.Option(
            "--tests-bytes",
            help="Maximum bytes of all tests within an hour, a quarter of them for one address.",
            metavar="SIZE",
        ),
    ] = "100GB"

    def limits(self) -> TestLimits | None:
        """The same, parsed; None for no tests."""
        from weirlab.base.amounts import parse_line, parse_size

        unlimited = self.tests_rate.strip() == "0"
        limits = TestLimits(
            bytes_per_s=None if unlimited else max(int(parse_line(self.tests_rate) / 8), 1),
            bytes=parse_size(self.tests_bytes, "--tests-bytes"),
        )
        return limits if self.tests else None


NO_TESTS: Final = ClientTestOptions()


@dataclass(frozen=True)
class RightOptions:
    """What users may do."""

    PANEL: ClassVar = "Rights"

    allow_run: Annotated[
        bool,
        typer.Option("--allow-run", help="Users may start scenarios, with the rights of this process."),
    ] = False
    allow_watch: Annotated[
        bool,
        typer.Option(
            "--allow-watch", help="Users may see connections of this host, and why they are not faster."
        ),
    ] = False
    user: Annotated[
        str | None,
        typer.Option(
            help="The user that the service becomes, as root; by default weir, or one that nobody is.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    tests: ClientTestOptions = NO_TESTS


@dataclass(frozen=True)
class VoiceOptions:
    """The numbering plan that organisations change."""

    PANEL: ClassVar = "Zone management"

    voice: Annotated[
        str | None,
        typer.Option(
            "--voice",
            help="The plan's database (see weir voice manage).",
            metavar="DATABASE",
            show_default=False,
        ),
    ] = None
    voice_zones: Annotated[
        str | None,
        typer.Option(
            "--voice-zones", help="Publish zones into this folder.", metavar="DIR", show_default=False
        ),
    ] = None
    voice_rndc: Annotated[
        str | None,
        typer.Option(
            "--voice-rndc",
            help="rndc's configuration, to have BIND load the zones.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    voice_server: Annotated[
        list[str] | None,
        typer.Option(
            "--voice-server",
            help="A name server to ask for its serials; repeatable.",
            metavar="ADDRESS:PORT",
            show_default=False,
        ),
    ] = None
    voice_catalog: Annotated[
        str | None,
        typer.Option(
            "--voice-catalog",
            help="Publish a catalog of the zones (RFC 9432) under this name.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    voice_user_header: Annotated[
        str | None,
        typer.Option(
            "--voice-user-header",
            help="Header in which a proxy names the user.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None

    def settings(self, proxies: Sequence[Network]) -> VoiceSettings | None:
        """The parsed settings; None for no zone management."""
        others = {
            "--voice-zones": self.voice_zones,
            "--voice-rndc": self.voice_rndc,
            "--voice-server": self.voice_server,
            "--voice-catalog": self.voice_catalog,
            "--voice-user-header": self.voice_user_header,
        }
        if self.voice is None:
            if given := next((name for name, value in others.items() if value), None):
                raise InputError(f"{given} needs --voice DATABASE, which names the plan")
            return None
        if self.voice_user_header is not None and not proxies:
            raise InputError("--voice-user-header needs --proxy: the header counts from that address alone")
        if self.voice_rndc is not None and self.voice_zones is None:
            raise InputError(
                "--voice-rndc needs --voice-zones, the folder that BIND's configuration includes"
            )
        if self.voice_catalog is not None and self.voice_zones is None:
            raise InputError("--voice-catalog needs --voice-zones, the folder in which zones are published")
        return VoiceSettings(
            database=self.voice,
            zones=self.voice_zones or "",
            rndc=self.voice_rndc or "",
            servers=tuple(name_server(each) for each in self.voice_server or ()),
            catalog="" if self.voice_catalog is None else domain_name(self.voice_catalog, "--voice-catalog"),
            user_header=self.voice_user_header or "",
        )


@dataclass(frozen=True)
class WebLimitOptions:
    """What captures and TCP tests may use."""

    PANEL: ClassVar = "Limits"

    max_upload: Annotated[
        str, typer.Option(help="Maximum size of an uploaded capture, as sent.", metavar="SIZE")
    ] = "4GB"
    max_memory: Annotated[
        str, typer.Option(help="Maximum memory of the process that reads a capture.", metavar="SIZE")
    ] = "4GB"
    max_time: Annotated[str, typer.Option(help="Maximum time for reading a capture.", metavar="TIME")] = (
        "10min"
    )
    max_transfer: Annotated[str, typer.Option(help="Maximum length of a TCP test.", metavar="TIME")] = "5min"
    readers: Annotated[
        int, typer.Option(min=1, max=64, help="Captures read at once; others wait.", metavar="N")
    ] = 1

    keep_days: Annotated[
        int,
        typer.Option(
            min=0, max=36_500, help="Remove captures and tests older than this; 0: never.", metavar="DAYS"
        ),
    ] = 0
    keep_size: Annotated[
        str | None,
        typer.Option(
            help="Remove the oldest captures and tests when their total is larger than this.",
            metavar="SIZE",
            show_default=False,
        ),
    ] = None

    def settings(self, listen: WebListenOptions, rights: RightOptions, voice: VoiceOptions) -> WebSettings:
        """All settings of the service, parsed."""
        from weirlab.base.amounts import parse_size, parse_time

        address, port = bind(listen.bind_to)
        proxies = listen.proxies()
        return WebSettings(
            address=address,
            port=port,
            token=listen.token,
            most_upload_bytes=parse_size(self.max_upload, "--max-upload"),
            memory_bytes=parse_size(self.max_memory, "--max-memory"),
            most_s=parse_time(self.max_time, "--max-time"),
            most_transfer_s=parse_time(self.max_transfer, "--max-transfer"),
            children=self.readers,
            most_days=self.keep_days,
            most_kept_bytes=0 if self.keep_size is None else parse_size(self.keep_size, "--keep-size"),
            allow_run=rights.allow_run,
            allow_watch=rights.allow_watch,
            tests=rights.tests.limits(),
            voice=voice.settings(proxies),
            proxies=proxies,
        )


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("web", help=WEB_HELP, rich_help_panel="Runs")(grouped(web))


def web(
    ctx: typer.Context,
    *,
    listen: WebListenOptions,
    rights: RightOptions,
    limits: WebLimitOptions,
    voice: VoiceOptions,
    store: options.StoreOption = None,
    json: LinesOption = False,
) -> None:
    """Serve."""
    with Session(ctx, as_json=json, store=store) as session:
        settings = limits.settings(listen, rights, voice)
        check(settings)
        WEB.require()
        if settings.voice is not None:
            MANAGE.require()
        from weirlab.web.http import listening
        from weirlab.web.launching import separation

        with ExitStack() as stack:
            listener = stack.enter_context(listening.listen(settings))
            settings = replace(settings, port=listener.getsockname()[1])
            # Before anything starts a thread, which would keep its rights.
            with READER.paused():
                settings, root, separated = separation.separate(settings, session.store_root, rights.user)
            stack.enter_context(separated.remote)
            # Imports Polars, which installs a signal handler: before this command's.
            from weirlab.link.stopping import Stop
            from weirlab.store import Store
            from weirlab.web import service

            def listens() -> None:
                if json:
                    about = {"url": settings.url, "store": root, "user": os.geteuid()}
                    say({"kind": "web listening", **about, "confinement": separated.measures})
                if lacking := separated.lacking():
                    session.say(f"the service keeps rights that it does not need: {lacking}")
                session.say(f"open {settings.url} in a browser; Ctrl-C ends it")

            stop = stack.enter_context(Stop())
            made = service.run(settings, Store(root), stop, listener, separated.remote, listens)
        tally = made.uploads.tally
        counted = {"transfers": made.transfers.begun, "scenarios": made.scenarios.begun}
        document = {"kind": "web", "uploads": tally, **counted}
        conclusion = (
            f"{tally.received:,} captures were taken and {tally.refused:,} refused; "
            f"{made.transfers.begun:,} TCP tests and {made.scenarios.begun:,} scenarios were begun."
        )
        if json:
            say({**document, "conclusion": conclusion})
        else:
            session.finish(document, conclusion)
