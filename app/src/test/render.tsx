import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import type { ReactElement, ReactNode } from "react";
import { createMemoryRouter, type RouteObject } from "react-router";
import { RouterProvider } from "react-router/dom";
import { Toaster } from "@/components/ui/toaster";

/** Renders routes at a path, with a query client of their own that does not repeat what fails. */
export function renderRoutes(routes: RouteObject[], path = "/") {
  const router = createMemoryRouter(routes, { initialEntries: [path] });
  const view = renderElement(<RouterProvider router={router} />);
  return { ...view, router };
}

/** Renders one element as a page of its own: for what asks the router, say whether a person may leave. */
export function renderPage(element: ReactElement) {
  return renderRoutes([{ index: true, element }]);
}

export function renderElement(element: ReactElement) {
  const queryClient = new QueryClient({ defaultOptions: { queries: { retry: false }, mutations: { retry: false } } });
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={queryClient}>
      {children}
      <Toaster />
    </QueryClientProvider>
  );
  return { user: userEvent.setup(), queryClient, ...render(element, { wrapper }) };
}
