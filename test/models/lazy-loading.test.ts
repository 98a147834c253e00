import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

/** Runs code in a fresh process, where `loaded` has the packages that were loaded; gives what it prints as JSON. */
async function run(code: string, env: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const module = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({ load(url, context, next) {
      const name = /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
      if (name !== undefined && /^(?:ai$|@ai-sdk\\/(?!provider))/.test(name)) loaded.add(name);
      return next(url, context);
    } });
    const { locateModel } = await import("./src/agents/models/resolve-model.ts");
    const { resolveModel } = await import("./src/agents/models/resolve-model.ts");
    const spec = { type: "model", name: "m", model: "anthropic/m", apiKey: "k", baseURL: "http://127.0.0.1:9", maxSteps: 1 };
    ${code}`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", module], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: { ...process.env, ...env },
  });
  return JSON.parse(stdout);
}

test("an agent and a judge are prepared without loading any SDK, and each model loads only its provider's package", async () => {
  const providers = ["anthropic", "openai", "google", "openai-compatible"];
  const added = await run(`
    const { createModelAgent } = await import("./src/agents/model.ts");
    const { createJudge } = await import("./src/graders/judge/judge.ts");
    await import("./src/agents/scripted.ts");
    await createModelAgent(spec, { env: {}, modelMs: 1000 }).prepare();
    createJudge({ ...spec, passThreshold: 1 }, { env: {}, modelMs: 1000, emit: () => 0, signal: AbortSignal.abort() });
    const added = [[...loaded]];
    for (const name of ${JSON.stringify(providers)}) {
      loaded.clear();
      await resolveModel(locateModel({ ...spec, model: name + "/m" }, {}));
      added.push([...loaded]);
    }
    console.log(JSON.stringify(added));`);
  expect(added).toEqual([[], ...providers.map((name) => [`@ai-sdk/${name}`])]);
});

test("the error names a base URL variable that is set but empty", async () => {
  const code = `await resolveModel(locateModel({ model: "anthropic/m", apiKey: "k" }, process.env))
    .catch((error) => console.log(JSON.stringify([error.code, error.details.hint])));`;
  expect(await run(code, { ANTHROPIC_BASE_URL: "" })).toEqual([
    "config/invalid-value",
    expect.stringMatching(/^Unset ANTHROPIC_BASE_URL/),
  ]);
});
