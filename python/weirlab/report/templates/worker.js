// In a worker, charts are drawn as SVG while the page answers: the first message is the style of the page's charts,
// and every chart that is posted is answered.
const inWorker = typeof document === "undefined";
// What Vega wants of a page: something to put the chart into, and a canvas to measure text on.
const element = () => ({ classList: { add() {}, remove() {} }, childNodes: [], style: {}, setAttribute() {}, appendChild: (one) => one });
if (inWorker) {
  const canvas = () => (typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1));
  self.document = { body: element(), createElement: (name) => (name === "canvas" ? canvas() : element()) };
}
/*VEGA*/
if (inWorker) {
  const refuse = () => Promise.reject(new Error("a chart loads nothing"));
  const options = { renderer: "none", actions: false, defaultStyle: false, tooltip: false, ast: true, loader: { load: refuse, sanitize: refuse } };
  let work = Promise.resolve();

  async function draw({ key, spec, config, width, signals }) {
    try {
      const { view } = await vegaEmbed(element(), { ...spec, width }, { ...options, config });
      for (const [name, value] of Object.entries(signals)) view.signal(name, value);
      postMessage({ key, width, svg: await view.toSVG() });
      view.finalize();
    } catch (error) {
      postMessage({ key, width, error: error.message });
    }
  }

  onmessage = ({ data }) => { work = work.then(() => draw(data)); };
  postMessage({ style: STYLE });
}
