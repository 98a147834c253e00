import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

/** Runs a module in a fresh process and gives the packages that it loaded. */
async function packagesLoadedBy(code: string): Promise<string[]> {
  const watch = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({ load(url, context, next) {
      const name = /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
      if (name !== undefined) loaded.add(name);
      return next(url, context);
    } });
    ${code}
    process.stdout.write(JSON.stringify([...loaded].sort()));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", watch], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
  });
  return JSON.parse(stdout) as string[];
}

const spec = `{ type: "model", name: "m", model: "MODEL", apiKey: "k", baseURL: "http://127.0.0.1:9", maxSteps: 1 }`;

test("an agent and a judge are created and prepared without loading any SDK", async () => {
  const loaded = await packagesLoadedBy(`
    const { createModelAgent } = await import("./src/agents/model.ts");
    const { createJudge } = await import("./src/graders/judge.ts");
    await import("./src/agents/scripted.ts");
    const spec = ${spec.replace("MODEL", "anthropic/m")};
    await createModelAgent(spec, { env: {}, modelMs: 1000 }).prepare();
    createJudge({ ...spec, passThreshold: 1 }, { env: {}, modelMs: 1000, emit: () => 0, signal: AbortSignal.abort() });
  `);
  expect(loaded.filter((name) => /^(?:ai$|@)/.test(name))).toEqual([]);
});

test.each([
  ["anthropic/m", "@ai-sdk/anthropic"],
  ["openai/m", "@ai-sdk/openai"],
  ["google/m", "@ai-sdk/google"],
  ["openai-compatible/m", "@ai-sdk/openai-compatible"],
])("resolving %s loads only %s", async (model, name) => {
  const loaded = await packagesLoadedBy(`
    const { locateModel } = await import("./src/models/locate-model.ts");
    const { resolveModel } = await import("./src/models/resolve-model.ts");
    await resolveModel(locateModel(${spec.replace("MODEL", model)}, {}));
  `);
  const providers = loaded.filter((loadedName) => /^(?:ai|@ai-sdk\/(?!provider))/.test(loadedName));
  expect(providers).toEqual([name]);
});

test("the error names a base URL variable that is set but empty", async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      "--input-type=module",
      "--eval",
      `const { locateModel } = await import("./src/models/locate-model.ts");
       const { resolveModel } = await import("./src/models/resolve-model.ts");
       const access = locateModel({ model: "anthropic/m", apiKey: "k" }, process.env);
       await resolveModel(access).catch((error) => console.log(error.code, error.details.hint));`,
    ],
    {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      env: { ...process.env, ANTHROPIC_BASE_URL: "" },
    },
  );
  expect(stdout).toMatch(/^config\/invalid-value Unset ANTHROPIC_BASE_URL/);
});
