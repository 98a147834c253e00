import { defineConfig } from "vitest/config";

/** Real agent programs; started by `npm run test:agents`, which installs them and closes the network. However busy the machine is, the time is no reason to fail. */
export default defineConfig({
  test: { include: ["test/real-agents/*.suite.ts"], fileParallelism: false, testTimeout: 3_600_000 },
});
