import { Link, useLocation } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { lazyPart } from "@/components/lazy-part";
import { LoadingState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { useDocumentTitle } from "@/hooks/use-document-title";

// One column is not where it should be.
const gap = [55, 80, 0, 65].map((percent, index) => ({ key: String(index), percent }));

const StopMails = lazyPart(
  () => import("../stop-mails").then(({ StopMails }) => StopMails),
  <LoadingState label="Loading..." />,
);

/** The page of the links in mails is here, not in the router: that is part of every page's scripts. */
export function Component() {
  return useLocation().pathname === "/mails/stop" ? <StopMails /> : <NotFound />;
}

function NotFound() {
  useDocumentTitle("Page not found");
  return (
    <div className="flex min-h-[calc(100dvh-8rem)] flex-col items-center justify-center px-6 text-center">
      <ColumnsChart columns={gap} className="h-32" />
      <h1 tabIndex={-1} className="mt-8 text-hero">
        404
      </h1>
      <p className="mt-3 text-lg text-muted-foreground">Oops! Page not found</p>
      <Button asChild className="mt-8">
        <Link to="/">Return to Home</Link>
      </Button>
    </div>
  );
}
