import { defineConfig } from "vitest/config";

/** Real agent programs; started by `npm run test:agents`, which installs them and closes the network. */
export default defineConfig({
  test: { include: ["test/real-agents/*.suite.ts"], fileParallelism: false, testTimeout: 120_000 },
});
