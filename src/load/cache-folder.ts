import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { runningPlatform } from "../process/environment.ts";
import { environment, type EnvironmentVariables, variableNamed } from "./environment.ts";

/** The folder for what can be made again, of this user; undefined when there is no place for it. */
export function cacheFolder(
  variables: EnvironmentVariables = environment(),
  platform: string = runningPlatform(),
): string | undefined {
  const [name, usual] = placeOn(platform);
  const given = variableNamed(name, variables) ?? "";
  if (isAbsolute(given)) return join(given, "mcpvals");
  const home = homeFolder();
  return home === undefined ? undefined : join(home, usual, "mcpvals");
}

/** The variable that names the folder for caches, and where it usually is in the user's own. */
function placeOn(platform: string): readonly [variable: string, usual: string] {
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
