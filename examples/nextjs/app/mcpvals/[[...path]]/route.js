import { createDashboardHandler } from "mcpvals/next";

export const { GET } = createDashboardHandler({
  basePath: "/mcpvals",
  // Without this line the dashboard answers only during development, and only on this machine.
  ...(process.env.DASHBOARD_KEY === undefined ? {} : { authorize: isAllowed }),
});

/** In an app of your own, ask its sessions here. */
function isAllowed(request) {
  return request.headers.get("authorization") === `Bearer ${process.env.DASHBOARD_KEY}`;
}
