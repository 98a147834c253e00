import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { runningPlatform } from "../process/environment.ts";
import { environment, type EnvironmentVariables, variableNamed } from "./environment.ts";

/** This user's cache folder; undefined if the user has no home folder. */
export function cacheFolder(
  variables: EnvironmentVariables = environment(),
  platform: string = runningPlatform(),
): string | undefined {
  const [name, defaultPath] = placeOn(platform);
  const given = variableNamed(name, variables) ?? "";
  if (isAbsolute(given)) return join(given, "mcpvals");
  const home = homeFolder();
  return home === undefined ? undefined : join(home, defaultPath, "mcpvals");
}

/** The variable that names the cache folder, and its default path in the home folder. */
function placeOn(platform: string): readonly [variable: string, defaultPath: string] {
  if (platform === "win32") return ["LOCALAPPDATA", join("AppData", "Local")];
  return ["XDG_CACHE_HOME", platform === "darwin" ? join("Library", "Caches") : ".cache"];
}

function homeFolder(): string | undefined {
  try {
    const home = homedir();
    return isAbsolute(home) ? home : undefined;
  } catch {
    return undefined; // the system does not know this user
  }
}
