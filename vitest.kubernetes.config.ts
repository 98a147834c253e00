import { defineConfig } from "vitest/config";

/** A real API server of Kubernetes; started by `npm run test:kubernetes`. */
export default defineConfig({
  test: {
    include: ["test/extensions/kubernetes/*.suite.ts"],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
