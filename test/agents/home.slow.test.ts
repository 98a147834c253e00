import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { asObject } from "../../src/base/json.ts";
import { type AgentPreset, presets } from "../../src/agents/programs/presets.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, runCli } from "../support/cli.ts";

/** Writes what it finds in its home, and its environment, into a file, and says all of it. */
const look = `
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
const { HOME: home } = process.env;
const files = {};
for (const entry of readdirSync(home, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  if (entry.isFile()) files[path.slice(home.length + 1)] = [readFileSync(path, "utf8"), statSync(path).mode & 0o777];
}
const seen = JSON.stringify({ home, mode: statSync(home).mode & 0o777, files, env: process.env, cwd: process.cwd() });
writeFileSync(process.argv[2], seen);
console.log(seen);
`;

interface Seen {
  readonly home: string;
  readonly mode: number;
  readonly files: Readonly<Record<string, readonly [content: string, mode: number]>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

interface Setup {
  readonly agent: object;
  /** Files of the user's home. */
  readonly user?: Readonly<Record<string, unknown>>;
  /** Files beside the folders of trials. */
  readonly above?: Readonly<Record<string, unknown>>;
  readonly env?: (folder: string) => Readonly<Record<string, string>>;
}

interface Played {
  readonly folder: string;
  readonly trial: TrialResult | undefined;
  readonly result: RunResult;
  /** What the program saw; undefined if it did not run. */
  readonly seen: Seen | undefined;
  /** Everything that was printed or written of the run. */
  readonly kept: string;
  /** What is left in the folder for temporary files. */
  readonly left: readonly string[];
}

function write(folder: string, files: Readonly<Record<string, unknown>>): void {
  for (const [name, content] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  }
}

async function play({ agent, user = {}, above = {}, env }: Setup): Promise<Played> {
  const seenFile = "seen.json";
  using folder = folderOf({ "look.mjs": look });
  const at = (name: string): string => join(folder.path, name);
  const config = {
    // A program that connects to none of its servers is an error.
    variants: { alone: { servers: { none: null } } },
    servers: { none: { transport: "mock", mock: { tools: { find: { responses: [{ return: 1 }] } } } } },
    agents: {
      it: {
        type: "command",
        command: "node",
        args: [at("look.mjs"), at(seenFile)],
        output: "text",
        configFiles: [],
        stdin: true,
        ...agent,
      },
    },
    workflows: [{ name: "look", steps: [{ user: "look", expectedState: "home" }] }],
  };
  write(folder.path, { "mcp-eval.config.json": config, "temporary/.keep": "" });
  write(at("user"), user);
  write(folder.path, above);
  const { stdout, stderr } = await runCli(["run", "--reporter", "json"], {
    cwd: folder.path,
    env: { HOME: at("user"), TMPDIR: at("temporary"), ...env?.(folder.path) },
  });
  expect(stdout, stderr).not.toBe("");
  const result = JSON.parse(stdout) as RunResult;
  const runs = readdirSync(at(".mcpvals"), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return {
    folder: folder.path,
    trial: result.trials[0],
    result,
    seen: existsSync(at(seenFile)) ? (JSON.parse(readFileSync(at(seenFile), "utf8")) as Seen) : undefined,
    kept: [
      stdout,
      stderr,
      ...runs.map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8")),
    ].join("\n"),
    left: readdirSync(at("temporary")).filter((name) => name !== ".keep"),
  };
}

const settings = {
  XDG_CONFIG_HOME: "/x/config",
  XDG_DATA_HOME: "/x/data",
  CODEX_HOME: "/x/codex",
  OTHER: "kept",
};

describe("an agent program", () => {
  it("has an empty home of its own, which is gone after the trial", async () => {
    const { seen, trial, result, folder, left } = await play({
      agent: { inheritEnv: true },
      user: { ".config/mine": "x" },
      env: () => settings,
    });
    expect(trial?.verdict).toBe("pass");
    expect(seen).toMatchObject({ mode: 0o700, files: {} });
    expect(seen?.home.startsWith(join(folder, "temporary"))).toBe(true);
    expect(seen?.cwd.startsWith(seen.home)).toBe(false);
    expect(seen?.env["TMPDIR"]).toBe(join(seen?.home ?? "", "tmp"));
    expect(seen?.env).toMatchObject({ OTHER: "kept", CODEX_HOME: "/x/codex" });
    expect(Object.keys(seen?.env ?? {}).filter((name) => name.startsWith("XDG_"))).toEqual([]);
    expect(left).toEqual([]);
    expect(result.environment.agents).toEqual([{ name: "it", type: "command", home: "trial" }]);
  });

  it("has the home of the user where the file says so, and the result says it too", async () => {
    const { seen, result, folder } = await play({
      agent: { preset: "codex", home: "user" },
      user: { ".config/mine": "x" },
      env: () => settings,
    });
    expect(seen?.home).toBe(join(folder, "user"));
    expect(seen?.files).toMatchObject({ ".config/mine": ["x", expect.any(Number)] });
    expect(seen?.env).toMatchObject({ CODEX_HOME: "/x/codex" });
    expect(result.environment.agents).toEqual([
      { name: "it", type: "command", preset: "codex", home: "user" },
    ]);
  });

  it("keeps variables that the file names", async () => {
    const { seen } = await play({
      agent: { preset: "codex", inheritEnv: ["XDG_DATA_HOME"], env: { CODEX_CONFIG: "{}", TMPDIR: "/own" } },
      env: () => ({ ...settings, CODEX_CONFIG: "of the user" }),
    });
    expect(seen?.env).toMatchObject({ XDG_DATA_HOME: "/x/data", CODEX_CONFIG: "{}", TMPDIR: "/own" });
    expect(seen?.env).not.toHaveProperty("CODEX_HOME");
  });

  it("that npx starts finds what npm has already", async () => {
    const script = `#!/bin/sh\nshift\nexec node "$@"\n`;
    const { seen, folder } = await play({
      agent: { command: "npx", args: ["mine", "look.mjs", "seen.json"], cwd: "." },
      above: { "node_modules/.bin/npx": script },
      user: { ".npm/_cacache/x": "x" },
      env: (path) => {
        chmodSync(join(path, "node_modules/.bin/npx"), 0o755);
        return {};
      },
    });
    expect(seen?.env["npm_config_cache"]).toBe(join(folder, "user/.npm"));
  });
});

const token = "the-token-of-the-user-0123456789";
const renewing = "the-renewing-token-0123456789";
const oauth = { type: "oauth", access: token, refresh: renewing };

describe("the login of the user", () => {
  it.each<[preset: AgentPreset, user: Record<string, unknown>, trial: Record<string, unknown>]>([
    [
      "claude-code",
      {
        ".claude/.credentials.json": {
          claudeAiOauth: { accessToken: token, refreshToken: renewing },
          mcpOAuth: {},
        },
        ".claude.json": { primaryApiKey: token, oauthAccount: { a: 1 }, mcpServers: { mine: {} } },
        ".claude/CLAUDE.md": "x",
        ".claude/settings.json": {},
      },
      {
        ".claude/.credentials.json": { claudeAiOauth: { accessToken: token, refreshToken: null } },
        ".claude.json": { primaryApiKey: token, oauthAccount: { a: 1 } },
      },
    ],
    [
      "codex",
      {
        ".codex/auth.json": {
          OPENAI_API_KEY: null,
          tokens: { access_token: token, refresh_token: renewing },
        },
        ".codex/config.toml": "x",
      },
      { ".codex/auth.json": { OPENAI_API_KEY: null, tokens: { access_token: token, refresh_token: "" } } },
    ],
    [
      "gemini",
      {
        ".gemini/oauth_creds.json": { access_token: token, refresh_token: renewing },
        ".gemini/google_accounts.json": { active: "me@example.com" },
        ".gemini/settings.json": {
          security: { auth: { selectedType: "oauth-personal" } },
          mcpServers: { mine: {} },
        },
        ".gemini/GEMINI.md": "x",
      },
      {
        ".gemini/oauth_creds.json": { access_token: token, refresh_token: renewing },
        ".gemini/google_accounts.json": { active: "me@example.com" },
        ".gemini/settings.json": { security: { auth: { selectedType: "oauth-personal" } } },
      },
    ],
    [
      "copilot",
      {
        ".copilot/config.json": `// Written by the program.\n{ "copilotTokens": { "https://github.com:me": "${token}" }, "theme": "dark" }`,
        ".copilot/mcp-config.json": {},
      },
      { ".copilot/config.json": { copilotTokens: { "https://github.com:me": token } } },
    ],
    [
      "opencode",
      {
        ".local/share/opencode/auth.json": {
          anthropic: { ...oauth, expires: 1 },
          "github-copilot": { ...oauth, expires: 0 },
          openai: { type: "api", key: token },
        },
        ".config/opencode/opencode.json": {},
      },
      {
        ".local/share/opencode/auth.json": {
          anthropic: { ...oauth, refresh: "", expires: 1 },
          "github-copilot": { ...oauth, expires: 0 },
          openai: { type: "api", key: token },
        },
      },
    ],
  ])("of %s is all that a trial gets, and is in nothing that is kept", async (preset, user, expected) => {
    const { seen, trial, kept, folder } = await play({ agent: { preset }, user });
    expect(trial?.verdict, kept).toBe("pass");
    const files = Object.entries(seen?.files ?? {});
    // What the preset itself writes has nothing of the user.
    const own = Object.keys(presets[preset].home.files ?? {});
    const carried = files.filter(([name]) => !own.includes(name));
    expect(files.length - carried.length).toBe(own.length);
    expect(Object.fromEntries(carried.map(([name, [content]]) => [name, JSON.parse(content)]))).toEqual(
      expected,
    );
    for (const [, [, mode]] of files) expect(mode).toBe(0o600);
    expect(kept).not.toContain(token);
    expect(kept).not.toContain(renewing);
    expect(existsSync(folder)).toBe(false);
  });

  it("of gemini is told that a key is there, and keeps the way that the user chose", async () => {
    const settings = ".gemini/settings.json";
    const chosenIn = async (user: Readonly<Record<string, unknown>>, key: object): Promise<unknown> => {
      const { seen } = await play({ agent: { preset: "gemini", env: key }, user });
      return JSON.parse(seen?.files[settings]?.[0] ?? "{}");
    };
    const oauth = { security: { auth: { selectedType: "oauth-personal" } } };
    const withKey = { security: { auth: { selectedType: "gemini-api-key" } } };
    expect(await chosenIn({}, {})).toEqual({});
    expect(await chosenIn({}, { GEMINI_API_KEY: "k" })).toEqual(withKey);
    expect(await chosenIn({ [settings]: oauth }, { GEMINI_API_KEY: "k" })).toEqual(oauth);
  });

  it("of qwen-code is only what it needs to reach its model, beside what the preset writes", async () => {
    const auth = { selectedType: "openai", apiKey: token };
    const modelProviders = { openai: [{ id: "m", envKey: "MY_KEY" }] };
    const settings = {
      security: { auth, folderTrust: { enabled: true } },
      modelProviders,
      env: { MY_KEY: renewing },
      mcpServers: { mine: {} },
      hooks: { SessionStart: [] },
      memory: { enableManagedAutoMemory: true },
    };
    const user = { ".qwen/settings.json": settings, ".qwen/QWEN.md": "x", ".qwen/.env": "OTHER=1" };
    const { seen, kept } = await play({ agent: { preset: "qwen-code" }, user });
    expect(Object.keys(seen?.files ?? {})).toEqual([".qwen/settings.json"]);
    expect(JSON.parse(seen?.files[".qwen/settings.json"]?.[0] ?? "{}")).toEqual({
      ...asObject(presets["qwen-code"].home.files?.[".qwen/settings.json"]),
      security: { auth },
      modelProviders,
      env: { MY_KEY: renewing },
    });
    expect(kept).not.toContain(token);
    expect(kept).not.toContain(renewing);
  });

  it("stands beside what a setting of the agent writes", async () => {
    const user = { ".gemini/settings.json": { security: { auth: { selectedType: "oauth-personal" } } } };
    const agent = { preset: "gemini", maxTurns: 3, systemPrompt: { replace: "Be {brief}." } };
    const { seen } = await play({ agent, user });
    expect(JSON.parse(seen?.files[".gemini/settings.json"]?.[0] ?? "{}")).toEqual({
      security: { auth: { selectedType: "oauth-personal" } },
      model: { maxSessionTurns: 3 },
    });
    expect(seen?.files[".gemini/system.md"]?.[0]).toBe("Be {brief}.");
    expect(seen?.env["GEMINI_SYSTEM_MD"]).toBe(join(seen?.home ?? "", ".gemini/system.md"));
  });

  it("is found where a variable of the user says", async () => {
    const { seen } = await play({
      agent: { preset: "codex" },
      above: { "elsewhere/auth.json": { OPENAI_API_KEY: token } },
      env: (folder) => ({ CODEX_HOME: join(folder, "elsewhere") }),
    });
    expect(Object.keys(seen?.files ?? {})).toContain(".codex/auth.json");
  });

  it("is an error where it cannot be read, and is not shown", async () => {
    const { trial, seen, kept } = await play({
      agent: { preset: "codex" },
      user: { ".codex/auth.json": `{"OPENAI_API_KEY": ${token}` },
    });
    expect(trial?.error).toMatchObject({
      code: "agent/home",
      message: expect.stringMatching(
        /^the login of agent it cannot be read from .*auth\.json: it is not JSON$/,
      ) as string,
    });
    expect(seen).toBeUndefined();
    expect(kept).not.toContain(token);
  });
});

describe("instructions above the folder of a trial", () => {
  it("are refused, since the program would read them", async () => {
    const { trial, seen, folder } = await play({
      agent: { preset: "claude-code" },
      above: { "CLAUDE.md": "x" },
    });
    expect(trial?.error).toMatchObject({
      code: "agent/home",
      message: `agent it would read ${join(folder, "CLAUDE.md")}, which is not part of the trial`,
    });
    expect(seen).toBeUndefined();
  });

  it("are no matter for a program that does not read them, or that works in a folder of the user", async () => {
    for (const agent of [{ preset: "gemini" }, {}, { preset: "claude-code", cwd: "." }]) {
      const { trial, kept } = await play({ agent, above: { "CLAUDE.md": "x" } });
      expect(trial?.verdict, kept).toBe("pass");
    }
  });
});
