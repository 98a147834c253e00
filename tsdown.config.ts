import { defineConfig } from "tsdown";

export default defineConfig({
  entry: { main: "src/cli/main.ts", index: "src/index.ts", "schema-worker": "src/graders/schema-worker.ts" },
  format: "esm",
  platform: "node",
  target: "node22.13",
  dts: true,
  clean: true,
  logLevel: "error",
  tsconfig: "tsconfig.build.json",
  fixedExtension: false,
});
