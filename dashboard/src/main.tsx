import { createRoot } from "react-dom/client";
import { createDataSource } from "./data.ts";
import "./app.css";

const root = document.querySelector("#root");
if (root !== null) createRoot(root).render(<pre>{Object.keys(createDataSource()).join(" ")}</pre>);
