import "./styles.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/app";
import { createQueryClient } from "@/app/query-client";
import { createRouter } from "@/app/router";
import { ErrorState } from "@/components/page-state";
import { loadAppConfig } from "@/lib/app-config";
import { messageOf } from "@/lib/errors";

const container = document.getElementById("root");
if (!container) throw new Error("index.html has no #root");
const root = createRoot(container);

async function start() {
  try {
    await loadAppConfig();
  } catch (error) {
    root.render(
      <main className="grid min-h-dvh place-items-center">
        <ErrorState
          heading="h1"
          title="Basalt could not start"
          description={messageOf(error)}
          onRetry={() => void start()}
        />
      </main>,
    );
    return;
  }
  const queryClient = createQueryClient();
  root.render(
    <StrictMode>
      <App queryClient={queryClient} router={createRouter(queryClient)} />
    </StrictMode>,
  );
}

void start();
