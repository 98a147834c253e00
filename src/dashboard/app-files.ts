import { readFile } from "node:fs/promises";
import { extname } from "node:path";

/** The built app: beside this file in the package, and in the output of the build where this is the source. */
const folder = new URL(
  extname(import.meta.url) === ".ts" ? "../../dist/dashboard/" : "./dashboard/",
  import.meta.url,
);

/** The text of a file of the app. Rejects where there is none, as in a clone that was not built. */
export async function appFile(name: "index.html" | "app.js" | "app.css"): Promise<string> {
  try {
    return await readFile(new URL(name, folder), "utf8");
  } catch (cause) {
    throw new Error("the app of the dashboard is not built; run: npm run build", { cause });
  }
}
