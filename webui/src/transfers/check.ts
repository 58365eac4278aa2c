/** A test of the connection between this browser and the service, by ndt7 (m-lab/ndt-server, spec/ndt7-protocol.md). */

export const LASTS_S = 10;
const PROTOCOL = "net.measurementlab.ndt.v7";
const MOST_MS = 14_000;
const EVERY_MS = 250;
const LEAST_BYTES = 1 << 13;
const MOST_BYTES = 1 << 23;

export type Way = "download" | "upload";
/** `rate` of the last quarter of a second in bit/s; round trips in ms, `idle` the shortest so far. */
export interface Point {
  at: number;
  rate: number;
  rtt: number | null;
  idle: number | null;
}

/** Test one way; `point` is called four times a second. Returns the data ID; throws where the connection was lost. */
export function check(way: Way, point: (point: Point) => void, stop: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const url = new URL(`ndt/v7/${way}?client_name=weir-page`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.hash = "";
    const socket = new WebSocket(url, PROTOCOL);
    let began = 0;
    let id = "";
    let moved = 0;
    let before = { at: 0, moved: 0 };
    let rtt: number | null = null;
    let idle: number | null = null;
    const seconds = () => (performance.now() - began) / 1000;

    const told = () => {
      const at = seconds();
      if (at - before.at < 0.05) return;
      point({ at, rate: ((moved - before.moved) * 8) / (at - before.at), rtt, idle });
      before = { at, moved };
    };
    const timers: number[] = [];
    const end = (error?: string) => {
      timers.forEach(clearInterval);
      stop.removeEventListener("abort", cancel);
      socket.onclose = socket.onmessage = null;
      socket.close();
      if (error) reject(new Error(error));
      else resolve(id);
    };
    const cancel = () => end("Stopped.");
    stop.addEventListener("abort", cancel);

    socket.onopen = () => {
      began = performance.now();
      timers.push(setInterval(told, EVERY_MS), setTimeout(() => end(id ? "" : "The service does not answer."), MOST_MS));
      if (way === "upload") load(socket, seconds);
    };
    socket.onmessage = ({ data }: MessageEvent<string | Blob>) => {
      if (typeof data !== "string") {
        moved += data.size;
        return;
      }
      const { AppInfo, ConnectionInfo, TCPInfo } = JSON.parse(data);
      id = ConnectionInfo.UUID;
      if (way === "upload") moved = AppInfo.NumBytes;
      rtt = TCPInfo?.RTT ? TCPInfo.RTT / 1e3 : rtt;
      idle = TCPInfo?.MinRTT ? TCPInfo.MinRTT / 1e3 : idle;
    };
    socket.onclose = ({ wasClean }) => {
      if (!began) return end("refused");
      told();
      // Browsers may go when they have sent all; the service then counts what came.
      end(wasClean || seconds() >= LASTS_S ? "" : `Connection lost after ${seconds().toFixed(1)} s.`);
    };
  });
}

/** Keep some messages waiting until the time is over; they grow with the rate. */
function load(socket: WebSocket, seconds: () => number) {
  let data = new Uint8Array(LEAST_BYTES);
  let sent = 0;
  const more = () => {
    if (socket.readyState !== WebSocket.OPEN) return;
    if (seconds() >= LASTS_S) return socket.close();
    if (data.length < MOST_BYTES && sent - socket.bufferedAmount >= 16 * data.length) data = new Uint8Array(2 * data.length);
    while (socket.bufferedAmount < 7 * data.length) {
      socket.send(data);
      sent += data.length;
    }
    setTimeout(more, 0);
  };
  more();
}
