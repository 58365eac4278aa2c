import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin, type UserConfig } from "vite";

/** Folders and files that the bundle is made of; tests/unit/web/test_bundle.py has the same list. */
const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

function filesOf(path: string): string[] {
  const full = join(import.meta.dirname, path);
  if (!existsSync(full)) return [];
  const entries = readdirSync(full, { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isDirectory() ? filesOf(join(path, entry.name)) : [join(path, entry.name)]));
}

/** A digest of all sources, kept beside the bundle: so it is known without Node whether it was made of these. */
function digest(): string {
  const files = SOURCES.flatMap((name) => (name.includes(".") ? [name] : filesOf(name))).sort();
  const sum = createHash("sha256");
  for (const file of files) {
    const content = readFileSync(join(import.meta.dirname, file));
    sum.update(`${file}\0${content.length}\0`).update(content);
  }
  return sum.digest("hex");
}

/** Licences of what is in the bundle, and the digest of its sources. */
function provenance(licences: string, head: string): Plugin {
  return {
    name: "provenance",
    generateBundle(_, bundle) {
      const modules = Object.values(bundle).flatMap((chunk) => (chunk.type === "chunk" ? Object.keys(chunk.modules) : []));
      const packages = new Set<string>();
      for (const id of [...modules, ...this.getModuleIds()]) {
        const match = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id);
        if (match && (modules.includes(id) || id.includes(".css"))) packages.add(match[1]!);
      }
      const texts = [...packages].sort().map((name) => {
        const folder = join(import.meta.dirname, "node_modules", name);
        const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
        const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
        if (!file) throw new Error(`${name} has no licence in ${relative(import.meta.dirname, folder)}`);
        const rule = "=".repeat(78);
        return `${rule}\n${name} ${about.version} (${about.license})\n${rule}\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
      });
      this.emitFile({ type: "asset", fileName: licences, source: [head, ...texts].join("\n") });
      this.emitFile({ type: "asset", fileName: "SOURCES.sha256", source: `${digest()}\n` });
    },
  };
}

/** The graphs of a capture for reports: a script and a style that `weir trace --report` puts into its page. */
const GRAPHS: UserConfig = {
  publicDir: false,
  plugins: [svelte(), provenance("graphs.LICENSES", "The graphs of this page contain the software named below.\n")],
  build: {
    outDir: "../python/weirlab/transfers/trace/page/assets",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/report.ts", formats: ["iife"], name: "graphs", fileName: () => "graphs.js", cssFileName: "graphs" },
  },
};

const PAGE: UserConfig = {
  base: "./",
  plugins: [svelte(), provenance("LICENSES.txt", "The page of weir web contains the software named below.\n")],
  build: {
    outDir: "../python/weirlab/web/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: {
      // No part of one version can be taken for that of another: a page may have been open since before an upgrade.
      output: { entryFileNames: "app-[hash].js", chunkFileNames: "[name]-[hash].js", assetFileNames: "app-[hash][extname]" },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:29180" } },
};

export default defineConfig(({ mode }) => (mode === "report" ? GRAPHS : PAGE));
