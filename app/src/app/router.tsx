import type { QueryClient } from "@tanstack/react-query";
import { createBrowserRouter, type RouteObject } from "react-router";
import { LoadingState } from "@/components/page-state";
import { RequireUser, RequireVisitor } from "./guards";
import { RootLayout } from "./root-layout";
import { RouteError } from "./route-error";

function FirstLoad() {
  return <LoadingState label="Loading..." />;
}

/** Every screen of the app; each is a module of its own, loaded when it is first visited. */
export function routes(queryClient: QueryClient): RouteObject[] {
  return [
    {
      Component: RootLayout,
      ErrorBoundary: RouteError,
      HydrateFallback: FirstLoad,
      children: [
        {
          // Around the screens but inside the layout: the header stays when one of them breaks.
          ErrorBoundary: RouteError,
          children: [
            { index: true, lazy: () => import("./routes/landing") },
            {
              lazy: () => import("./routes/account"),
              children: [
                {
                  Component: RequireVisitor,
                  children: [
                    {
                      lazy: () => import("./routes/account-tabs"),
                      children: [
                        { path: "login", lazy: () => import("./routes/login") },
                        { path: "register", lazy: () => import("./routes/register") },
                      ],
                    },
                    { path: "forgot-password", lazy: () => import("./routes/forgot-password") },
                  ],
                },
                // Its own guard: the link of the mail has signed its person in.
                { path: "reset-password", lazy: () => import("./routes/reset-password") },
              ],
            },
            {
              Component: RequireUser,
              children: [
                {
                  path: "dashboard",
                  lazy: async () => {
                    const { loader, ...route } = await import("./routes/dashboard");
                    return { ...route, loader: loader(queryClient) };
                  },
                },
              ],
            },
            { path: "*", lazy: () => import("./routes/not-found") },
          ],
        },
      ],
    },
  ];
}

export function createRouter(queryClient: QueryClient) {
  return createBrowserRouter(routes(queryClient));
}
