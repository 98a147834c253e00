// First: it asks the server for what the page shows.
import { createDataSource } from "./data.ts";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { DataSourceContext } from "./queries.ts";
import { router } from "./router.tsx";
import { ShortcutScope } from "./shortcuts.tsx";
import "./app.css";

// The server is on this machine: neither a retry nor a missing network changes its answer.
const client = new QueryClient({ defaultOptions: { queries: { retry: false, networkMode: "always" } } });
const root = document.querySelector("#root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <DataSourceContext value={createDataSource()}>
        <QueryClientProvider client={client}>
          <ShortcutScope>
            <RouterProvider router={router} />
          </ShortcutScope>
        </QueryClientProvider>
      </DataSourceContext>
    </StrictMode>,
  );
