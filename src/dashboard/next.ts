import { resolve } from "node:path";
import { isLoopback, refusal, type Access } from "./access.ts";
import { createDashboard } from "./handler.ts";
import { environment } from "../formats/environment.ts";
import { defaultRunsFolder } from "../store/run-folder.ts";

/** What a dashboard inside an app shows, and to whom. */
export interface DashboardHandlerOptions {
  /** Folder of the runs, relative to the working folder. Default: `.mcpvals/runs`. */
  readonly runs?: string;
  /** The path at which the app has the handler, such as `/mcpvals`. */
  readonly basePath: string;
  /**
   * Says whether someone may see the runs, with all that they recorded. Without it the dashboard answers only during development,
   * and only on this machine.
   */
  readonly authorize?: (request: Request) => boolean | Promise<boolean>;
}

/** What a route file of Next.js exports. */
export interface DashboardHandler {
  readonly GET: (request: Request) => Promise<Response>;
}

/** Makes the handlers of a catch-all route such as `app/mcpvals/[[...path]]/route.ts`, which serve the dashboard there. */
export function createDashboardHandler(options: DashboardHandlerOptions): DashboardHandler {
  const { runs = defaultRunsFolder, basePath, authorize } = options;
  const cwd = process.cwd();
  const { fetch } = createDashboard({
    runs: resolve(cwd, runs),
    cwd,
    basePath: basePath.replace(/\/+$/, ""),
    access: authorize === undefined ? developmentAccess : accessOf(authorize),
  });
  return { GET: fetch };
}

/** `next build` loads routes, so what is missing is said when it matters. */
const developmentAccess: Access = async (request) => {
  if (environment()["NODE_ENV"] === "production")
    return refusal(
      403,
      "In production the dashboard needs authorize: see createDashboardHandler of mcpvals/next.",
    );
  return isLoopback(request)
    ? undefined
    : refusal(
        403,
        "The dashboard answers only at localhost: for others, give createDashboardHandler authorize.",
      );
};

function accessOf(authorize: NonNullable<DashboardHandlerOptions["authorize"]>): Access {
  return async (request) => {
    // Programs without types may return anything.
    const allowed: unknown = await authorize(request);
    return allowed === true ? undefined : refusal(403, "You may not see the dashboard of this app.");
  };
}
