"""Pages as Chromium draws them: names, where the first graph is, zoom, cursors. Skipped without it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from weirlab.devices.profile.page import gather, tell
from weirlab.trace import Trace
from weirlab.transfers.trace.page.story import tell as tell_trace

from ..trace import made

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

SCREEN = (1280, 800)
FOUND = '<script id="found" type="application/json">'

# In virtual time: as much as is left to do is done, however long that takes.
PROBE = """
<script>
addEventListener("load", async () => {
  const pause = (ms) => new Promise((go) => setTimeout(go, ms));
  const drag = (target, type, clientX, clientY) => {
    const Kind = type.startsWith("pointer") ? PointerEvent : MouseEvent;
    const common = { button: 0, buttons: 1, movementX: 9, pointerId: 1, bubbles: true, cancelable: true };
    target.dispatchEvent(new Kind(type, { ...common, clientX, clientY }));
  };
  await pause(2000);
  const found = {};
  try { %s } catch (error) { found.error = String(error.stack); }
  const out = document.createElement("script");
  out.type = "application/json";
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>
"""


def seen(html: str, probe: str, folder: Path) -> dict[str, Any]:
    """What ``probe``, JavaScript that fills ``found``, sees on the page."""
    page = folder / "page.html"
    # The last one: the scripts of the page have such a text, too.
    before, _, after = html.rpartition("</body>")
    page.write_text(f"{before}{PROBE % probe}</body>{after}", encoding="utf-8")
    assert CHROMIUM is not None
    dumped = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         f"--user-data-dir={folder / 'profile'}", f"--window-size={SCREEN[0]},{SCREEN[1]}",
         "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    text = re.search(r'id="found">(.*?)</script>', dumped.stdout, re.S)
    assert text is not None, dumped.stderr
    found = json.loads(text[1])
    assert "error" not in found, found["error"]
    return dict(found)


def test_a_page_of_charts(small_run: Any, models: Any, tmp_path: Path) -> None:
    found = seen(
        tell(gather(small_run, models)).html(),
        """
        const plots = [...document.querySelectorAll(".plot")];
        found.roles = [...new Set(plots.map((plot) => plot.getAttribute("role")))];
        found.labels = plots.map((plot) => plot.getAttribute("aria-label"));
        const within = [...document.querySelectorAll(".plot [aria-label]")];
        found.exposed = within.filter((part) => !part.closest("[aria-hidden=true]")).length;
        found.plots = plots.length;
        found.top = plots[0].getBoundingClientRect().top;
        const axis = plots[0].querySelector(".mark-text.role-axis-label");
        const ticks = () => [...axis.querySelectorAll("text")].map((text) => text.textContent).sort();
        found.before = ticks();
        const plane = plots[0].querySelector(".background").getBoundingClientRect();
        const y = plane.top + plane.height / 2;
        drag(plots[0], "pointerdown", plane.left + plane.width * 0.4, y);
        drag(plots[0], "pointermove", plane.left + plane.width * 0.6, y);
        drag(plots[0], "pointerup", plane.left + plane.width * 0.6, y);
        await pause(500);
        found.zoomed = ticks();
        document.querySelector(".tools [data-zoom=whole]").click();
        await pause(500);
        found.whole = ticks();
        const points = ".mark-symbol.role-mark path";
        const opacity = (path) => path.getAttribute("opacity");
        const strengths = () => new Set([...plots[0].querySelectorAll(points)].map(opacity));
        found.alike = strengths().size;
        const entry = plots[0].querySelector(".role-legend-symbol path");
        const { left, top, width, height } = entry.getBoundingClientRect();
        for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) {
          drag(entry, type, left + width / 2, top + height / 2);
        }
        await pause(500);
        found.picked = strengths().size;
        """,
        tmp_path,
    )
    assert found["roles"] == ["img"]
    assert "Vega visualization" not in found["labels"]
    assert len(set(found["labels"])) == found["plots"] > 5
    assert found["exposed"] == 0
    assert found["top"] <= 1.5 * SCREEN[1]
    assert found["before"] == found["whole"] != found["zoomed"]
    assert (found["alike"], found["picked"]) == (1, 2)


def test_cursors_agree_after_zoom(tmp_path: Path) -> None:
    made.write_series(tmp_path / "series", segments=300)
    file = {**made.files(1)[0], "path": "x/made.pcap"}
    trace = Trace(made.analysis([made.connection(0)], capture={"files": [file]}), tmp_path / "series")
    found = seen(
        tell_trace(trace, connection=0).html(),
        """
        const planes = [...document.querySelectorAll(".u-over")];
        const box = planes[0].getBoundingClientRect(), y = box.top + 40;
        const x = (share) => box.left + box.width * share;
        for (const [type, share] of [
          ["mouseenter", 0.3], ["mousemove", 0.3], ["mousedown", 0.3], ["mousemove", 0.7], ["mouseup", 0.7],
        ]) drag(planes[0], type, x(share), y);
        await pause(500);
        found.cursors = planes.map((plane) => plane.querySelector(".u-cursor-x").style.transform);
        found.told = document.querySelector(".readout p").textContent;
        const drawn = [...document.querySelectorAll("[role=img]")];
        found.names = drawn.map((each) => each.getAttribute("aria-label"));
        found.described = drawn.every((each) =>
          document.getElementById(each.getAttribute("aria-describedby")).textContent.length > 10);
        found.top = box.top;
        // What lies below the pointer once the part between 0.3 and 0.7 fills the graph.
        const { from, to } = JSON.parse(document.getElementById("data").textContent);
        found.time = from + (to - from) * (0.3 + 0.4 * 0.7);
        """,
        tmp_path,
    )
    assert len(set(found["names"])) == len(found["cursors"]) >= 4
    assert found["described"]
    assert len(set(found["cursors"])) == 1
    assert float(found["told"].split(" ")[0]) == pytest.approx(found["time"], rel=0.01)
    assert found["top"] <= 1.5 * SCREEN[1]
