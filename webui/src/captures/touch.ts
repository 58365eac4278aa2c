/** Fingers on a graph: one that moves sideways chooses a part, two zoom, and a tap points. */
import type uPlot from "uplot";

interface Touched {
  shown(): [number, number];
  show(from: number, to: number): void;
  point(at: { clientX: number; clientY: number }): void;
}

const LEAST_PX = 12;

export function followFingers(plot: uPlot, touched: Touched): void {
  const fingers = new Map<number, { from: number; to: number }>();
  let pinched = false;
  let shown: [number, number] = [0, 1];
  const place = (event: PointerEvent) => event.clientX - plot.over.getBoundingClientRect().left;
  const select = (left: number, width: number) => plot.setSelect({ left, width, top: 0, height: width && plot.over.clientHeight }, false);

  /** The part for which what was below both fingers stays below them. */
  function pinch(): void {
    const [a, b] = [...fingers.values()];
    if (!a || !b || Math.abs(a.to - b.to) < LEAST_PX) return;
    const width = plot.over.clientWidth;
    const at = (x: number) => shown[0] + ((shown[1] - shown[0]) * x) / width;
    const perPixel = (at(b.from) - at(a.from)) / (b.to - a.to);
    if (perPixel > 0) touched.show(at(a.from) - a.to * perPixel, at(a.from) + (width - a.to) * perPixel);
  }

  plot.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    fingers.set(event.pointerId, { from: place(event), to: place(event) });
    plot.over.setPointerCapture(event.pointerId);
    shown = touched.shown();
    pinched ||= fingers.size > 1;
    for (const finger of fingers.values()) finger.from = finger.to;
    if (pinched) select(0, 0);
  });
  plot.over.addEventListener("pointermove", (event) => {
    const finger = fingers.get(event.pointerId);
    if (!finger) return;
    finger.to = place(event);
    if (pinched) pinch();
    else {
      select(Math.min(finger.from, finger.to), Math.abs(finger.to - finger.from));
      plot.setCursor({ left: finger.to, top: 0 }, false);
      touched.point(event);
    }
  });
  const end = (event: PointerEvent) => {
    const finger = fingers.get(event.pointerId);
    if (!finger) return;
    fingers.delete(event.pointerId);
    if (!pinched && event.type === "pointerup" && Math.abs(finger.to - finger.from) >= LEAST_PX) {
      const ends = [plot.posToVal(finger.from, "x"), plot.posToVal(finger.to, "x")] as const;
      touched.show(Math.min(...ends), Math.max(...ends));
    }
    select(0, 0);
    if (!fingers.size) pinched = false;
  };
  plot.over.addEventListener("pointerup", end);
  plot.over.addEventListener("pointercancel", end);
}
