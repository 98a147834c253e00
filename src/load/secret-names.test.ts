import { describe, expect, it } from "vitest";
import { isSecretName, isSecretValue, maskSecrets } from "./secrets.ts";

describe("names", () => {
  it.each([
    "API_KEY",
    "OPENAI_API_KEY",
    "apikey",
    "apiKey",
    "x-api-key",
    "SSH_KEY",
    "KEY",
    "SECRETS_KEY_2",
    "TOKEN",
    "GITHUBTOKEN",
    "authToken",
    "ACCESS_TOKENS",
    "SECRET",
    "clientSecret",
    "PASSWORD",
    "PGPASSWORD",
    "DB_PASSWD",
    "MYSQL_PWD",
    "PASSPHRASE",
    "DB_PASS",
    "CREDENTIALS",
    "AWS_CREDENTIAL",
    "AUTH",
    "BASIC_AUTH",
    "AUTHORIZATION",
    "authHeader",
    "OAUTH2",
    "COOKIE",
    "Set-Cookie",
    "PRIVATE_KEY_PEM",
    "SENTRY_DSN",
    "CONNECTION_STRING",
    "connectionString",
    "GITHUB_PAT",
    "SIGNING_KEYS",
  ])("%s may hold a secret", (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each([
    "PATH",
    "PWD",
    "OLDPWD",
    "HOME",
    "PORT",
    "NODE_ENV",
    "AUTHOR",
    "GIT_AUTHOR_NAME",
    "KEYBOARD_LAYOUT",
    "TOKENIZER",
    "TOKENIZERS_PARALLELISM",
    "COMPASS_MODE",
    "PATTERN",
    "name",
    "DATABASE_URL",
    "LOG_LEVEL",
    "user",
    "PASSIVE",
  ])("%s holds none", (name) => {
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
