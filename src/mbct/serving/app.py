"""The ASGI application: routes, and what each of them does."""

import asyncio
import gc
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec

from mbct.errors import DataError, StorageError
from mbct.serving.codec import decode_json, unprocessable
from mbct.serving.explanation import explain
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.http import TEXT, ClientGone, Deadlines, Problem, Receive, Reply, Request, Scope, Send, carries_token
from mbct.serving.loaded_model import Identifier
from mbct.serving.metrics import Family, Labels, Metrics, exposition, single
from mbct.serving.model_watcher import ModelWatcher
from mbct.serving.openapi import OPEN_ROUTES, document
from mbct.serving.options import ServiceOptions
from mbct.serving.page import page
from mbct.serving.scoring import LARGE_BODY, PATH, Scoring

log = logging.getLogger("mbct.serving")

_SYNC_SECONDS = 1.0
Handler = Callable[[Request], Awaitable[Reply]]


class Outcome(msgspec.Struct):
    """What came of one scored row."""

    id: Identifier
    label: int


class OutcomeRequest(msgspec.Struct):
    """Outcomes to join."""

    outcomes: list[Outcome]


class OnlineSwitch(msgspec.Struct):
    """Whether the online layer is applied."""

    enabled: bool


class Service:
    """The application. It owns nothing that a restart would miss: model, journal and options come from outside."""

    def __init__(
        self, watcher: ModelWatcher, feedback: FeedbackLoop, options: ServiceOptions, metrics: Metrics
    ) -> None:
        self._watcher, self._feedback, self._options, self._metrics = watcher, feedback, options, metrics
        self._token = None if options.token is None else options.token.encode()
        self.scoring = Scoring(watcher, feedback, options, metrics)
        self._decode_outcomes = msgspec.json.Decoder(OutcomeRequest)
        self._decode_switch = msgspec.json.Decoder(OnlineSwitch)
        self._deadlines = Deadlines(options.limits.body_seconds)
        self._routes: dict[str, tuple[str, Handler]] = {
            PATH: ("POST", self._score),
            "/v1/explain": ("POST", self._explain),
            "/v1/outcome": ("POST", self._outcome),
            "/v1/model": ("GET", self._model),
            "/v1/rules": ("GET", self._rules),
            "/v1/rules.txt": ("GET", self._rules_text),
            "/v1/live": ("GET", self._live),
            "/v1/alarms": ("GET", self._alarms),
            "/v1/online": ("GET", self._online),
            "/v1/online/switch": ("POST", self._switch_online),
            "/healthz": ("GET", self._health),
            "/readyz": ("GET", self._ready),
            "/metrics": ("GET", self._metrics_text),
            "/openapi.json": ("GET", self._openapi),
            "/docs": ("GET", self._page),
            "/": ("GET", self._page),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the server's start and end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        path = scope["path"]
        route = self._routes.get(path)
        request = Request(scope, receive, self._options.limits, self._deadlines)
        try:
            reply = await self._handler(request, route)(request)
        except Problem as problem:
            await request.discard()
            reply = problem.reply()
        except ClientGone:
            return
        except Exception:
            reply = self._internal_error(request)
        await send(reply.start())
        await send({"type": "http.response.body", "body": reply.body})
        self._metrics.observe(path if route else "unknown", reply.status, time.perf_counter() - began)

    def close(self) -> None:
        """End the watching and close the journal."""
        self._watcher.stop()
        self._feedback.close()

    def _handler(self, request: Request, route: tuple[str, Handler] | None) -> Handler:
        """The handler of a request that may pass."""
        if route is None:
            routes = len(self._routes)
            raise Problem(404, "Not Found", f"there is nothing here; see /docs for the {routes} routes")
        method, handler = route
        if request.path not in OPEN_ROUTES and not (self._token is None or carries_token(request.headers, self._token)):
            challenge = ((b"www-authenticate", b'Bearer realm="mbct"'),)
            raise Problem(401, "Unauthorized", "send the service's token as 'Authorization: Bearer …'", challenge)
        if request.method != method and not (method == "GET" and request.method == "HEAD"):
            raise Problem(405, "Method Not Allowed", f"use {method}", ((b"allow", method.encode()),))
        return handler

    def _internal_error(self, request: Request) -> Reply:
        """The client gets a number to quote, never the trace."""
        number = secrets.token_hex(4)
        log.exception("error %s while serving %s %s", number, request.method, request.path)
        return Problem(500, "Internal Server Error", f"an error of the service; its log has it as {number}").reply()

    async def _score(self, request: Request) -> Reply:
        body = await request.body()
        if len(body) < LARGE_BODY:
            return self.scoring.reply(request.content_type(), body, request.query)
        scored = await asyncio.to_thread(self.scoring.score, request.content_type(), body, request.query)
        return self.scoring.count(scored)

    async def _explain(self, request: Request) -> Reply:
        body = await request.body()
        loaded = self.scoring.loaded()
        row = msgspec.structs.astuple(decode_json(loaded.decoders.explain, request.content_type(), body).row)
        given = dict(zip(loaded.model.bins.names, row, strict=True))
        try:
            explained = explain(loaded.model, given, loaded.rule_of)
        except (DataError, ValueError, OverflowError) as error:
            raise unprocessable(str(error)) from error
        trees = [
            {
                "tree": path.tree,
                "path": [
                    {"feature": each.feature, "value": given[each.feature], "condition": str(each)}
                    for each in path.rule.conditions
                ],
                "multiplier": path.rule.multiplier,
                "applies_to": path.rule.applies_to,
                "rows": path.rule.rows,
                "label_rate": path.rule.label_rate,
                "bound": path.rule.bound,
                "after": path.after,
            }
            for path in explained.trees
        ]
        answer = {"score": explained.score, "calibrated": explained.calibrated, "model": loaded.version, "trees": trees}
        return Reply(msgspec.json.encode(answer))

    async def _outcome(self, request: Request) -> Reply:
        body = await request.body()
        if self._options.workers > 1:
            detail = "outcomes need a service of one process, which remembers the scores: start it with --workers 1"
            raise Problem(501, "Not Implemented", detail)
        outcomes = decode_json(self._decode_outcomes, request.content_type(), body).outcomes
        if not 0 < len(outcomes) <= self._options.limits.rows:
            raise unprocessable(f"a request takes 1 to {self._options.limits.rows:,} outcomes, got {len(outcomes):,}")
        for position, outcome in enumerate(outcomes):
            if outcome.label not in (0, 1):
                raise unprocessable(f"label {outcome.label} is neither 0 nor 1 - at `$.outcomes[{position}].label`")
        try:
            joining = self._feedback.join([(outcome.id, outcome.label) for outcome in outcomes])
        except StorageError as error:
            log.error("outcomes were not taken: %s", error)
            detail = "the outcomes could not be kept; nothing of them was counted: send them again later"
            raise Problem(503, "Service Unavailable", detail, ((b"retry-after", b"30"),)) from error
        self._metrics.outcomes["joined"] += joining.joined
        self._metrics.outcomes["unknown"] += len(joining.unknown)
        return Reply(msgspec.json.encode({"joined": joining.joined, "unknown": joining.unknown}))

    async def _model(self, _: Request) -> Reply:
        return Reply(msgspec.json.encode(self.scoring.loaded().description()))

    async def _rules(self, _: Request) -> Reply:
        return Reply(self.scoring.loaded().rules_json)

    async def _rules_text(self, _: Request) -> Reply:
        return Reply(self.scoring.loaded().rules_text, TEXT)

    async def _live(self, _: Request) -> Reply:
        return Reply(msgspec.json.encode({"live": self._feedback.live(), "waiting": self._feedback.waiting}))

    async def _alarms(self, _: Request) -> Reply:
        self._feedback.live()  # closes the minute that is past
        stream, options = self._feedback.stream, self._options.feedback
        answer = {
            "alarms": stream.alarms,
            "past": stream.monitor.past,
            "level": options.alarm_level,
            "tolerance": options.tolerance,
        }
        return Reply(msgspec.json.encode(answer))

    async def _online(self, _: Request) -> Reply:
        stream = self._feedback.stream
        shift = stream.layer.shift
        answer = {
            "enabled": self._options.feedback.online and stream.layer.enabled,
            "model": stream.layer_model,
            "centre": shift.centre,
            "intercept": shift.intercept,
            "slope": shift.slope,
            "offsets": stream.layer.offsets,
            "max_shift": shift.max_shift,
        }
        return Reply(msgspec.json.encode(answer))

    async def _switch_online(self, request: Request) -> Reply:
        body = await request.body()
        if not self._options.feedback.online:
            raise Problem(409, "Conflict", "the service was started without the online layer: use --online")
        wanted = decode_json(self._decode_switch, request.content_type(), body)
        self._feedback.stream.layer.enabled = wanted.enabled
        if (save := self._feedback.checkpoint()) is not None:
            await asyncio.to_thread(save)
        log.info("the online layer is switched %s", "on" if self._feedback.stream.layer.enabled else "off")
        return await self._online(request)

    async def _health(self, _: Request) -> Reply:
        return Reply(b'{"status":"alive"}')

    async def _ready(self, request: Request) -> Reply:
        loaded, health = self._watcher.current, self._watcher.health
        status = "no model" if loaded is None else "ready" if health.problem is None else "degraded"
        trusted = self._token is not None and carries_token(request.headers, self._token)
        answer = {
            "status": status,
            "model": loaded.version if loaded else None,
            "source_up": health.source_up,
            "problem": health.detail if trusted else health.problem,
        }
        return Reply(msgspec.json.encode(answer), status=503 if loaded is None else 200)

    async def _metrics_text(self, _: Request) -> Reply:
        worker = (("worker", str(os.getpid())),) if self._options.workers > 1 else ()
        text = metrics_text(self._metrics, self._watcher, self._feedback, worker)
        return Reply(text.encode(), _PROMETHEUS)

    async def _openapi(self, _: Request) -> Reply:
        described = document(self._watcher.current, self._options.limits, token=self._token is not None)
        return Reply(msgspec.json.encode(described))

    async def _page(self, request: Request) -> Reply:
        body, headers = page("docs.html" if request.path == "/docs" else "page.html")
        return Reply(body, b"text/html; charset=utf-8", headers=headers)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._watcher.start()
        # What is loaded by now stays: the collector of cycles need not look at it again and again.
        gc.collect()
        gc.freeze()
        duties = [self._flush_regularly(), self._sync_regularly(), self._deadlines.watch()]
        tasks = [asyncio.create_task(duty) for duty in duties]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in tasks:
            task.cancel()
        await self._flush()
        self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.feedback.flush_seconds)
            self._feedback.live()
            await self._flush()

    async def _sync_regularly(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            await asyncio.to_thread(self._feedback.sync)

    async def _flush(self) -> None:
        try:
            if (save := self._feedback.checkpoint()) is not None:
                await asyncio.to_thread(save)
            self._feedback.seal()
            self._metrics.flushes["done"] += await asyncio.to_thread(self._feedback.flush)
        except Exception:
            self._metrics.flushes["failed"] += 1
            log.exception("outcomes could not be handed to the store; they stay in the journal and are offered again")


_PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"


def metrics_text(metrics: Metrics, watcher: ModelWatcher, feedback: FeedbackLoop, common: Labels = ()) -> str:
    """Everything that Prometheus may read."""
    model, health, live = watcher.current, watcher.health, feedback.live()
    loaded = [((("version", model.version),), model.loaded_at)] if model else []
    segments = [((("window", m.window), ("segment", m.segment)), m) for m in live]
    stream = feedback.stream
    layer = stream.layer
    online = model is not None and model.version == stream.layer_model and layer.enabled
    offsets = [((("segment", name),), offset) for name, offset in layer.offsets.items()] if online else []
    alarms = [((("kind", a.kind), ("name", a.name), ("direction", a.direction)), a) for a in stream.alarms]
    return exposition(
        [
            *metrics.families(),
            Family("mbct_model_loaded_seconds", "gauge", "When the model in service was loaded.", loaded),
            single("mbct_model_swaps_total", "counter", "Models replaced by newer ones.", health.swaps),
            single("mbct_model_refused_total", "counter", "New models that were refused.", health.refused),
            single("mbct_model_source_up", "gauge", "Whether the model's source can be read.", int(health.source_up)),
            single("mbct_scores_waiting", "gauge", "Scores that wait for their outcome.", feedback.waiting),
            Family("mbct_live_outcomes", "gauge", "Outcomes of the window.", [(p, m.outcomes) for p, m in segments]),
            Family("mbct_live_pcoc", "gauge", "Calibrated over actual positives.", [(p, m.pcoc) for p, m in segments]),
            Family("mbct_live_ece", "gauge", "Expected calibration error.", [(p, m.ece) for p, m in segments]),
            single("mbct_online_enabled", "gauge", "Whether the online layer moves answers.", int(online)),
            single("mbct_online_intercept", "gauge", "Its intercept.", layer.shift.intercept if online else 0.0),
            single("mbct_online_slope", "gauge", "Its slope.", layer.shift.slope if online else 1.0),
            Family("mbct_online_offset", "gauge", "What it adds to the log-odds of a segment.", offsets),
            single("mbct_alarms_active", "gauge", "Calibration alarms that are on.", len(alarms)),
            single("mbct_alarms_total", "counter", "Calibration alarms raised.", stream.raised),
            Family("mbct_alarm_ratio", "gauge", "Observed over predicted.", [(p, a.ratio) for p, a in alarms]),
            Family("mbct_alarm_changed_seconds", "gauge", "When it began.", [(p, a.changed_at) for p, a in alarms]),
        ],
        common,
    )
