import { describe, expect, it } from "vitest";
import { collectSecrets, isSecretName, isSecretValue, maskSecrets, type SecretSources } from "./secrets.ts";

function secrets(document: unknown, more: Partial<SecretSources> = {}): Record<string, string> {
  const found = collectSecrets({ document, variables: new Map(), overrides: {}, environment: {}, ...more });
  return Object.fromEntries(found.map(({ name, value }) => [value, name]));
}

it.each<readonly [path: string, tokens: readonly string[]]>([
  ["/api/mcp/s/NTg5YzQ1Zi1hYmM3/mcp", ["NTg5YzQ1Zi1hYmM3"]],
  ["/server/7d1e0f3a-91b2-4c55-8d0e-0a1b2c3d4e5f/mcp", ["7d1e0f3a-91b2-4c55-8d0e-0a1b2c3d4e5f"]],
  ["/token/lighthouse/mcp", ["lighthouse"]],
  ["/s/aB%2Bc9d8e7f6g5h4i3/mcp", ["aB%2Bc9d8e7f6g5h4i3", "aB+c9d8e7f6g5h4i3"]],
  ["/v1/weather-forecasts-2026/mcp", []],
  ["/organisations/internationalization/mcp", []],
  ["/getWeatherForecastServer/mcp", []],
  ["/an%20answer%20of%20100%20MB", []],
])("takes what looks like a token from the path of a server's URL: %s", (path, tokens) => {
  expect(Object.keys(secrets({ server: { transport: "shttp", url: `https://host${path}` } }))).toEqual(
    tokens,
  );
});

it("takes keys, headers, secret variables and flags from a config", () => {
  expect(
    secrets({
      openaiKey: "sk-openai",
      agent: { model: "m", apiKey: "sk-agent", headers: { "x-org": "org-value", Accept: "text/html" } },
      agents: { one: { model: "m", apiKey: "sk-one" }, two: "a/b" },
      judge: { model: "m", apiKey: "sk-judge" },
      server: {
        transport: "stdio",
        command: "node",
        args: [
          "server.js",
          "--token=flag-1",
          "--api-key",
          "flag-2",
          "--password",
          "--verbose",
          "--port",
          "8080",
        ],
        env: { DB_PASSWORD: "hunter2", LOG_LEVEL: "debug", DATABASE_URL: "postgres://u:p%40ss@db/x" },
      },
      servers: {
        web: {
          transport: "shttp",
          url: "https://user:urlpass@host/mcp?access_token=query1&page=12345&sig=query2",
          headers: {
            Authorization: "Bearer bearer-x",
            Cookie: "session=abc",
            "Content-Type": "application/json",
          },
        },
      },
    }),
  ).toEqual({
    "sk-openai": "openaiKey",
    "sk-agent": "apiKey",
    "org-value": "x-org",
    "sk-one": "apiKey",
    "sk-judge": "apiKey",
    "flag-1": "token",
    "flag-2": "api-key",
    hunter2: "DB_PASSWORD",
    "p%40ss": "DATABASE_URL",
    "p@ss": "DATABASE_URL",
    urlpass: "url",
    query1: "url",
    query2: "url",
    "bearer-x": "Authorization",
    "session=abc": "Cookie",
  });
});

it("takes them from variables, the command line, server environments and provider keys", () => {
  expect(
    secrets(undefined, {
      variables: new Map([
        ["MY_TOKEN", "from-variable"],
        ["HOST", "example.com"],
      ]),
      overrides: { API_KEY: "from-option", MODE: "test-mode", REDIS: "redis://:redis-pass@h:1" },
      environment: {
        ANTHROPIC_API_KEY: "sk-ant",
        OPENAI_API_KEY: "sk-oai",
        GEMINI_API_KEY: "gem-key",
        ANTHROPIC_AUTH_TOKEN: "ant-token",
        AZURE_OPENAI_API_KEY: "azure-key",
        AWS_BEARER_TOKEN_BEDROCK: "bedrock-key",
        AWS_ACCESS_KEY_ID: "AKIA-1",
        AWS_SECRET_ACCESS_KEY: "aws-secret",
        AWS_SESSION_TOKEN: "aws-session",
        AWS_REGION: "eu-west-1",
        OTHER_TOKEN: "unused-by-us",
      },
      serverEnvironments: [{ GITHUB_TOKEN: "inherited", PATH: "/bin:/usr/bin" }],
    }),
  ).toEqual({
    "from-variable": "MY_TOKEN",
    "from-option": "API_KEY",
    "redis-pass": "REDIS",
    inherited: "GITHUB_TOKEN",
    "sk-ant": "ANTHROPIC_API_KEY",
    "sk-oai": "OPENAI_API_KEY",
    "gem-key": "GEMINI_API_KEY",
    "ant-token": "ANTHROPIC_AUTH_TOKEN",
    "azure-key": "AZURE_OPENAI_API_KEY",
    "bedrock-key": "AWS_BEARER_TOKEN_BEDROCK",
    "AKIA-1": "AWS_ACCESS_KEY_ID",
    "aws-secret": "AWS_SECRET_ACCESS_KEY",
    "aws-session": "AWS_SESSION_TOKEN",
  });
});

it("takes what is assigned in arguments, headers in them, and single cookies", () => {
  const server = {
    args: [
      "run",
      "-e",
      "API_KEY=assigned-1",
      "--header",
      "Authorization: Bearer bearer-2",
      "connect to mysql://root:toor@db/x, then https://ghp_0123456789abcdef@github.com/x?q=1#token=frag",
      "-e",
      "MODE=fast",
    ],
    headers: { Cookie: "theme=dark; session=cookie-3", Authorization: "Bearer abc" },
  };
  expect(secrets({ server })).toEqual({
    "Bearer abc": "Authorization",
    toor: "args",
    ghp_0123456789abcdef: "args",
    frag: "args",
    "assigned-1": "API_KEY",
    "bearer-2": "Authorization",
    "theme=dark; session=cookie-3": "Cookie",
    "cookie-3": "Cookie",
  });
});

it("leaves out what is too short or no secret", () => {
  expect(secrets({ server: { headers: { Authorization: "Bearer abcd" } } })).toEqual({
    abcd: "Authorization",
  });
  const env = { TOKEN: "abc", USE_AUTH: "true", MAX_TOKENS: "4096" };
  expect(
    secrets({ openaiKey: "abc", server: { env, headers: { A: "x" }, url: "http://me@host/?key=1" } }),
  ).toEqual({});
});

it("the texts inside a variable that is JSON are secrets too, because a template can take them out", () => {
  const value = JSON.stringify({ type: "account", deep: [{ key: "inner-secret-77" }] });
  const found = collectSecrets({
    document: {},
    variables: new Map(),
    overrides: { JSON_SECRET: value, PLAIN: value },
    environment: {},
  });
  expect(found).toEqual([
    { name: "JSON_SECRET", value },
    { name: "JSON_SECRET", value: "inner-secret-77" },
  ]);
});

describe("names", () => {
  it.each(
    `
    API_KEY OPENAI_API_KEY apikey apiKey x-api-key SSH_KEY KEY SECRETS_KEY_2 TOKEN GITHUBTOKEN
    authToken ACCESS_TOKENS SECRET clientSecret PASSWORD PGPASSWORD DB_PASSWD MYSQL_PWD
    PASSPHRASE DB_PASS CREDENTIALS AWS_CREDENTIAL AUTH BASIC_AUTH AUTHORIZATION authHeader
    OAUTH2 COOKIE Set-Cookie PRIVATE_KEY_PEM SENTRY_DSN CONNECTION_STRING connectionString
    GITHUB_PAT SIGNING_KEYS
    `
      .trim()
      .split(/\s+/),
  )("%s may hold a secret", (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each(
    `
    PATH PWD OLDPWD HOME PORT NODE_ENV AUTHOR GIT_AUTHOR_NAME KEYBOARD_LAYOUT TOKENIZER
    TOKENIZERS_PARALLELISM COMPASS_MODE PATTERN name DATABASE_URL LOG_LEVEL user PASSIVE
    `
      .trim()
      .split(/\s+/),
  )("%s holds none", (name) => {
    expect(isSecretName(name)).toBe(false);
  });
});

describe("values", () => {
  it.each([
    ["API_KEY", "abcd"],
    ["DB_PASSWORD", "1234"],
    ["TOKEN", "true-value"],
  ])("%s=%s is hidden", (name, value) => {
    expect(isSecretValue(name, value)).toBe(true);
  });

  it.each([
    ["API_KEY", "abc"],
    ["TOKEN", "message"],
    ["TOKEN", "tools/call"],
    ["TOKEN", "Error"],
    ["USE_AUTH", "true"],
    ["AUTH_TYPE", "Basic"],
    ["MAX_TOKENS", "4096"],
    ["TOKEN_LIMIT", "100000"],
    ["TOKEN_TTL", "3600"],
  ])("%s=%s is not", (name, value) => {
    expect(isSecretValue(name, value)).toBe(false);
  });
});

it.each([
  ['  "apiKey": "sk-123",', '  "apiKey": "******",'],
  ["  apiKey: sk-123 # note", "  apiKey: ****** * ****"],
  ["TOKEN='a b'", "TOKEN='* *'"],
  ['{"password":"a\\"b", "x": 1}', '{"password":"**"*", "x": 1}'],
  ['  "openaiKey": "unclosed', '  "openaiKey": "********'],
  ["  token: ${GITHUB_TOKEN}", "  token: ${GITHUB_TOKEN}"],
  ["  authorization: Bearer-${X}-tail", "  authorization: *******${X}*****"],
  ["  name: get_token", "  name: get_token"],
  ['  "call": "token",', '  "call": "token",'],
  ["  command: node", "  command: node"],
  ["  DB_URL: postgres://me:hunter2@h/db", "  DB_URL: postgres://me:*******@h/db"],
  ["  url: http://me:${PASSWORD}@h/", "  url: http://me:${PASSWORD}@h/"],
  ["  Authorization: Bearer abc def", "  Authorization: ****** *** ***"],
])("masks %j as %j", (line, masked) => {
  expect(maskSecrets(line)).toBe(masked);
  expect(masked).toHaveLength(line.length);
});

it("masks given values wherever they stand, the longer ones first", () => {
  expect(maskSecrets("url: http://u:hunter2@h/?x=hunter", ["hunter", "hunter2"])).toBe(
    "url: http://u:*******@h/?x=******",
  );
});
