import { dirname } from "node:path";
import { defineConfig } from "tsdown";

const common = {
  format: "esm",
  platform: "node",
  target: "node22.13",
  logLevel: "error",
  tsconfig: "tsconfig.build.json",
  fixedExtension: false,
} as const;

/** Extensions written in TypeScript; each becomes one file that needs nothing beside it. */
const bundled = ["kubernetes", "sql"];

export default defineConfig([
  {
    ...common,
    entry: {
      main: "src/cli/main.ts",
      index: "src/index.ts",
      extension: "src/extension-sdk/index.ts",
      "schema-worker": "src/graders/schema-worker.ts",
    },
    dts: true,
    clean: true,
    copy: ["kubernetes/extension.yaml", "sql/extension.yaml", "csv/extension.yaml", "csv/main.py"].map(
      (path) => ({ from: `extensions/${path}`, to: `dist/extensions/${dirname(path)}` }),
    ),
  },
  ...bundled.map((name) => ({
    ...common,
    entry: { main: `extensions/${name}/main.ts` },
    outDir: `dist/extensions/${name}`,
    clean: false,
    dts: false,
    minify: true,
    noExternal: [/.*/],
    external: ["pg-native", "pg-cloudflare", "bufferutil", "utf-8-validate"],
  })),
]);
