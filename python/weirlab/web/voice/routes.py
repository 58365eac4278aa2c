"""The API routes of zone management."""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Field

from weirlab.base.errors import InputError
from weirlab.base.quoting import printable
from weirlab.numbering.diff import by_kind
from weirlab.numbering.managing.accounts import SESSION, NotSignedIn, UserSession
from weirlab.numbering.managing.database import DatabaseError
from weirlab.numbering.managing.pieces import GENERAL, PARTS, Item
from weirlab.numbering.managing.register import ChangeResult, MissingPiece
from weirlab.numbering.managing.rights import refusal
from weirlab.numbering.managing.state import ChangeRefusal, PlanState
from weirlab.numbering.managing.transaction import UserAccount
from weirlab.numbering.plan.values import DIALLED
from weirlab.numbering.routing import wording
from weirlab.numbering.routing.calls import calls
from weirlab.web.access import guard
from weirlab.web.http.turns import without_turn
from weirlab.web.voice import asking
from weirlab.web.voice.asking import FIELDS
from weirlab.web.voice.attempts import TooManyAttempts
from weirlab.web.voice.service import FORM_HEADER, VoiceService

_MOST_PIECES: Final = 100
_MOST_EVENTS: Final = 100
_MOST_PROBLEMS: Final = 200
_MOST_NUMBERS: Final = 50
_RETRY_S: Final = 5
_NEW: Final = ("organisations", "trees", "domains")
"""Parts to which only administrators add."""

Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Of a piece or an event: what a database keeps."""
Dialled = Annotated[str, Query(max_length=40, pattern=f"^{DIALLED.pattern}$")]


def _reader(request: Request) -> UserSession:
    """The user of a request."""
    voice: VoiceService = request.app.state.voice
    return voice.signed_in(request)


def _changer(request: Request) -> UserSession:
    """The user of a request for a change, which comes from a form of this page."""
    who = _reader(request)
    if not hmac.compare_digest(request.headers.get(FORM_HEADER, "").encode(), who.form_key.encode()):
        raise NotSignedIn("this form is from another session: load the page again")
    return who


Reader = Annotated[UserSession, Depends(_reader)]
Changer = Annotated[UserSession, Depends(_changer)]


def add_to(app: FastAPI, voice: VoiceService) -> None:
    """Add the routes to ``app``."""
    app.state.voice = voice
    for routes in (_sessions, _plan, _changes, _publishing):
        app.include_router(routes(voice), prefix="/api/voice")
    _explain(app)


def _sessions(voice: VoiceService) -> APIRouter:
    router = APIRouter()

    @router.get("/session")
    def session(request: Request) -> asking.SessionState:
        plan = voice.register.state().plan.plan
        try:
            found = voice.user(request)
        except NotSignedIn as error:
            return asking.SessionState(plan, None, str(error))
        if found is None:
            return asking.SessionState(plan, None)
        vouched = voice.vouched(request)
        return asking.SessionState(plan, asking.User.of(found.account, found.form_key, vouched=vouched))

    @router.post("/session")
    async def sign_in(request: Request, asked: asking.SignInRequest) -> Response:
        address = voice.address(request)

        def attempt(failures: int) -> str:
            return voice.accounts.sign_in(asked.name, asked.password, address, failures)

        key = await without_turn(voice.attempts.make(asked.name, address, attempt))
        response = JSONResponse({"signed_in": True})
        response.set_cookie(
            voice.cookie_name,
            key,
            max_age=round(SESSION.total_seconds()),
            path="/api/voice",
            httponly=True,
            samesite="strict",
            # Browsers accept such cookies only over TLS, which this host itself does not need.
            secure=request.scope["scheme"] == "https" or guard.host(request) not in guard.LOOPBACK,
        )
        return response

    @router.post("/session/password")
    async def password(request: Request, asked: asking.PasswordRequest, who: Changer) -> Response:
        if voice.vouched(request):
            raise InputError("a proxy signs you in: change your password there")
        key, address = voice.key(request), voice.address(request)

        def attempt(failures: int) -> None:
            voice.accounts.change_password(key, asked.before, asked.after, address, failures)

        await without_turn(voice.attempts.make(who.account.name, address, attempt))
        return JSONResponse({"changed": True})

    @router.post("/session/end")
    def sign_out(request: Request, _: asking.EmptyRequest, who: Changer) -> Response:
        voice.accounts.sign_out(voice.key(request))
        response = JSONResponse({"signed_in": False})
        response.delete_cookie(voice.cookie_name, path="/api/voice")
        return response

    return router


def _plan(voice: VoiceService) -> APIRouter:
    router = APIRouter()

    @router.get("/parts")
    def overview(who: Reader) -> asking.Overview:
        state = voice.register.state()
        parts = []
        for key, part in PARTS.items():
            found = [problem for problem in state.problems if problem.part == key]
            errors = sum(each.severity == "error" for each in found)
            administrator = who.account.administrator
            parts.append(
                asking.PartState(
                    key=key,
                    title=part.title,
                    one=part.one,
                    count=len(state.of(key)),
                    errors=errors,
                    warnings=len(found) - errors,
                    adds=key != GENERAL and (administrator or key not in _NEW),
                    fields=FIELDS[key],
                )
            )
        plan = state.plan
        names = {
            "organisations": [*plan.organisations],
            "engines": [*plan.engines],
            "trees": [*plan.trees],
        }
        return asking.Overview(parts, names, [*state.problems[:_MOST_PROBLEMS]], not state.is_checked)

    @router.get("/items/{part}")
    def listed(
        who: Reader,
        part: asking.PartName,
        find: Annotated[str, Query(max_length=100)] = "",
        skip: Annotated[int, Query(ge=0, le=10**7)] = 0,
    ) -> asking.Pieces:
        state = voice.register.state()
        wanted = find.casefold()
        found = [
            item
            for item in state.of(part)
            if not wanted or wanted in json.dumps(item.content, ensure_ascii=False).casefold()
        ]
        shown = found[skip : skip + _MOST_PIECES]
        return asking.Pieces(len(found), [_piece(state, who.account, item) for item in shown])

    @router.get("/item/{number}")
    def one(who: Reader, number: Number) -> asking.Piece:
        state = voice.register.state()
        if (item := state.item(number)) is None:
            raise MissingPiece("there is no such piece; see the history")
        return _piece(state, who.account, item)

    @router.get("/way")
    def way(who: Reader, number: Dialled, caller: Annotated[str, Query(max_length=100)] = "") -> asking.Ways:
        network = voice.register.state().network
        found = [*islice(calls(network, number, caller or None), wording.MOST_WAYS)]
        steps = [
            asking.Way(table.caption, [[engine, what] for _, engine, what, _ in table.rows])
            for table in wording.tables(network.book, found)
        ]
        return asking.Ways(
            wording.conclusion(network, number, found), any(each.end.good for each in found), steps
        )

    @router.get("/plan.yaml")
    def document(who: Reader) -> PlainTextResponse:
        headers = {"Content-Disposition": 'attachment; filename="plan.yaml"'}
        return PlainTextResponse(voice.register.state().text, media_type="application/yaml", headers=headers)

    @router.get("/history")
    def history(who: Reader, below: Number | None = None, item: Number | None = None) -> asking.EventList:
        with voice.register.database.reading() as on:
            found = on.events(most=_MOST_EVENTS + 1, below=below, item=item, changes=True)
        return asking.EventList(found[:_MOST_EVENTS], len(found) > _MOST_EVENTS)

    @router.get("/log")
    def log(who: Reader, below: Number | None = None) -> asking.EventList:
        if not who.account.administrator:
            raise NotSignedIn("the audit log is for administrators")
        with voice.register.database.reading() as on:
            found = on.events(most=_MOST_EVENTS + 1, below=below)
        return asking.EventList(found[:_MOST_EVENTS], len(found) > _MOST_EVENTS)

    return router


def _piece(state: PlanState, who: UserAccount, item: Item) -> asking.Piece:
    owners = state.owners
    mine = refusal(who.organisation, state.plan, item.part, item.content, item.content, owners) is None
    problems = [problem for problem in state.problems if problem.item == item.id]
    name = PARTS[item.part].name_of(item.content)
    return asking.Piece(item.id, item.revision, name, item.content, mine, problems)


def _changes(voice: VoiceService) -> APIRouter:
    router = APIRouter()
    register = voice.register

    @router.post("/items/{part}", status_code=201)
    def add(who: Changer, part: asking.PartName, asked: asking.AddRequest) -> asking.ChangeResponse:
        return _made(register.add(who.account, part, asked.content, accept=asked.accept))

    @router.post("/item/{number}")
    def change(who: Changer, number: Number, asked: asking.ChangeRequest) -> asking.ChangeResponse:
        done = register.change(who.account, number, asked.revision, asked.content, accept=asked.accept)
        return _made(done)

    @router.post("/item/{number}/remove")
    def remove(who: Changer, number: Number, asked: asking.RemoveRequest) -> asking.ChangeResponse:
        return _made(register.remove(who.account, number, asked.revision, accept=asked.accept))

    @router.post("/history/{number}/undo")
    def undo(who: Changer, number: Number, asked: asking.UndoRequest) -> asking.ChangeResponse:
        return _made(register.undo(who.account, number, accept=asked.accept))

    return router


def _made(done: ChangeResult) -> asking.ChangeResponse:
    return asking.ChangeResponse(done.event, done.problems)


def _publishing(voice: VoiceService) -> APIRouter:
    router = APIRouter()

    @router.get("/pending")
    def pending(who: Reader) -> asking.PreviewResponse:
        found = voice.outlook.pending()
        since = 0 if found.before is None else found.before.event
        with voice.register.database.reading() as on:
            events = [event for event in on.events(most=_MOST_EVENTS, changes=True) if event.id > since]
        ways = [
            asking.RoutingDifference(
                [each.numbers for each in listed[:_MOST_NUMBERS]], str(before), str(after)
            )
            for before, after, listed in by_kind([*found.changes])
        ]
        why_not = ""
        if not who.account.may_publish:
            why_not = "You may not publish; ask an administrator."
        elif voice.target is None:
            why_not = "This service has no folder for zones: it was started without --voice-zones."
        return asking.PreviewResponse(
            head=found.head,
            serial=None if found.before is None else found.before.serial,
            events=events,
            ways=ways,
            untold=found.untold,
            errors=[*found.draft.errors],
            held=[asking.PublicationBlock(name, problems) for name, problems in found.draft.held.items()],
            may=not why_not,
            why_not=why_not,
        )

    @router.post("/publish")
    def publish(who: Changer, asked: asking.PublishRequest) -> asking.PublicationResponse:
        made = voice.publish(who, asked.head)
        return asking.PublicationResponse(made.serial, made.zones, made.held)

    @router.get("/servers")
    def servers(who: Reader) -> list[asking.ServerZone]:
        return voice.served()

    return router


def _explain(app: FastAPI) -> None:
    """Answer refusals with what a form shows about them."""

    @app.exception_handler(ChangeRefusal)
    def refused(request: Request, error: ChangeRefusal) -> Response:
        content = {
            "error": {"kind": "Refused", "message": printable(str(error))},
            "problems": [asdict(problem) for problem in error.problems],
            "acceptable": error.acceptable,
        }
        return JSONResponse(content, 422)

    @app.exception_handler(TooManyAttempts)
    def throttled(request: Request, error: TooManyAttempts) -> Response:
        content = {"error": {"kind": "Throttled", "message": str(error)}}
        return JSONResponse(content, 429, {"Retry-After": str(error.wait_s)})

    @app.exception_handler(NotSignedIn)
    def not_signed_in(request: Request, error: NotSignedIn) -> Response:
        return JSONResponse({"error": {"kind": "NotSignedIn", "message": printable(str(error))}}, 403)

    @app.exception_handler(MissingPiece)
    def gone(request: Request, error: MissingPiece) -> Response:
        return JSONResponse({"error": {"kind": "Gone", "message": printable(str(error))}}, 404)

    @app.exception_handler(DatabaseError)
    def database_failed(request: Request, error: DatabaseError) -> Response:
        content = {"error": {"kind": "DatabaseError", "message": printable(str(error))}}
        if error.temporary:
            return JSONResponse(content, 503, {"Retry-After": str(_RETRY_S)})
        return JSONResponse(content, 500)
