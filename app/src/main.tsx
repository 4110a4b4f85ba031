import "./styles.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { createQueryClient } from "@/app/query-client";
import { createRouter } from "@/app/router";

const container = document.getElementById("root");
if (!container) throw new Error("index.html has no #root");

const queryClient = createQueryClient();
createRoot(container).render(
  <StrictMode>
    <App queryClient={queryClient} router={createRouter(queryClient)} />
  </StrictMode>,
);
