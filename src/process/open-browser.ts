import { spawn } from "node:child_process";

/** Opens an address in the user's browser. Never throws: where there is none, nothing happens. */
export function openBrowser(address: string): void {
  const [command, ...args] = openers[process.platform] ?? ["xdg-open"];
  const child = spawn(command, [...args, address], { detached: true, stdio: "ignore" });
  child.on("error", () => undefined);
  child.unref();
}

const openers: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ["open"],
  // Not `start`, which is a command of the shell and would read the address as one.
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};
