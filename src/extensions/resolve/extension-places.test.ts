import { homedir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { extensionPlaces } from "./create-resolver.ts";

const env = { MCPVALS_EXTENSIONS_CACHE: "/env", MCPVALS_RELEASES_URL: "http://env" };
const settings = { cacheDir: "/eval", releasesUrl: "http://eval", allowedSources: ["npm:*"] };

it("prefers options to the eval, the eval to the environment, and that to what is usual", () => {
  const options = { cacheDir: "/option", releasesUrl: "http://option" };
  const home = homedir();
  expect(extensionPlaces({ options, settings, env })).toEqual({
    ...options,
    allowedSources: ["npm:*"],
    home,
    env,
  });
  expect(extensionPlaces({ options: {}, settings, env })).toEqual({ ...settings, home, env });
  expect(extensionPlaces({ env })).toEqual({ cacheDir: "/env", releasesUrl: "http://env", home, env });
  const empty = { MCPVALS_EXTENSIONS_CACHE: "", MCPVALS_RELEASES_URL: "" };
  const usual = join(home, ".mcpvals", "extensions");
  expect(extensionPlaces({ env: empty })).toEqual({ cacheDir: usual, home, env: empty });
});
