import type { QueryClient } from "@tanstack/react-query";
import { createBrowserRouter, type RouteObject } from "react-router";
import { LoadingState } from "@/components/page-state";
import { RootLayout } from "./root-layout";
import { RouteError } from "./route-error";

function FirstLoad() {
  return <LoadingState label="Loading..." />;
}

const adminScreens: RouteObject[] = [
  { index: true, lazy: () => import("./routes/admin/overview") },
  { path: "audit-log", lazy: () => import("./routes/admin/audit-log") },
  { path: "health", lazy: () => import("./routes/admin/health") },
  { path: "integrations/email", lazy: () => import("./routes/admin/email") },
  { path: "marketing", lazy: () => import("./routes/admin/marketing") },
  { path: "settings", lazy: () => import("./routes/admin/settings") },
  { path: "subscription-plans", lazy: () => import("./routes/admin/subscription-plans") },
  { path: "users", lazy: () => import("./routes/admin/users") },
  { path: "webhooks", lazy: () => import("./routes/admin/webhooks") },
];

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
            { path: "pricing", lazy: () => import("./routes/pricing") },
            { path: "terms", lazy: () => import("./routes/terms") },
            { path: "privacy", lazy: () => import("./routes/privacy") },
            {
              lazy: () => import("./routes/account"),
              children: [
                {
                  lazy: async () => ({ Component: (await import("./visitor-guard")).RequireVisitor }),
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
              lazy: async () => ({ Component: (await import("./guards")).RequireUser }),
              children: [
                {
                  path: "dashboard",
                  lazy: async () => {
                    const { loader, ...route } = await import("./routes/dashboard");
                    return { ...route, loader: loader(queryClient) };
                  },
                },
                {
                  path: "admin",
                  lazy: async () => ({ Component: (await import("./admin-guard")).RequireAdmin }),
                  children: [
                    {
                      lazy: () => import("./routes/admin/layout"),
                      children: [
                        {
                          // Around the screens: the sidebar stays when one of them breaks.
                          ErrorBoundary: RouteError,
                          children: adminScreens,
                        },
                      ],
                    },
                  ],
                },
                { path: "account", lazy: () => import("./routes/my-account") },
                { path: "dashboard/subscription", lazy: () => import("./routes/subscription") },
                { path: "plan/:planId/print", lazy: () => import("./routes/plan-print") },
                {
                  path: "plan/:planId/report",
                  lazy: async () => ({ Component: (await import("./routes/report")).PlanReport }),
                },
                {
                  path: "plan/:planId",
                  lazy: async () => {
                    const { loader, ...route } = await import("./routes/plan");
                    return { ...route, loader: loader(queryClient) };
                  },
                },
              ],
            },
            { path: "invite", lazy: () => import("./routes/invite") },
            {
              path: "report/:token",
              lazy: async () => ({ Component: (await import("./routes/report")).SharedReport }),
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
