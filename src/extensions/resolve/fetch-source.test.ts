import { expect, test } from "vitest";
import { baseAddress, checkAddress } from "./fetch-source.ts";

const github = "https://api.github.com";

test.each([
  [github, "https://github.com/acme/demo/releases/download/v1/x.zip", true],
  [github, "https://release-assets.githubusercontent.com/x?sig=1", true],
  [github, "https://githubusercontent.com.evil.example/x", false],
  [github, "https://evilgithubusercontent.com/x", false],
  [github, "https://github.com:8443/x", false],
  [github, "http://github.com/x", false],
  ["https://mirror.example/api", "https://mirror.example/files/x", true],
  ["https://mirror.example/api", "https://github.com/x", false],
  ["https://mirror.example", "http://mirror.example/x", false],
  ["https://mirror.example", "http://127.0.0.1/x", false],
  ["http://127.0.0.1:4000", "http://127.0.0.1:4000/x", true],
  ["http://127.0.0.1:4000", "http://127.0.0.1:4001/x", false],
  ["http://[::1]:4000", "http://[::1]:4000/x", true],
])("releases of %s from %s: %s", (base, address, allowed) => {
  const check = (): void => checkAddress(new URL(address), baseAddress(base), "a page");
  if (allowed) expect(check).not.toThrow();
  else expect(check).toThrow("a page leads to");
});

test.each(["http://mirror.example", "http://127.0.0.1.example", "http://127.example", "file:///etc", "what"])(
  "%s is no base address",
  (text) => {
    expect(() => baseAddress(text)).toThrow("releasesUrl");
  },
);
