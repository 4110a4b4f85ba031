import { useQuery } from "@tanstack/react-query";
import { Button } from "@/components/ui/button";
import { Skeleton } from "@/components/ui/skeleton";
import { operatorQuery } from "./queries";

/** Name, address and e-mail of the operator, or that there are none. */
export function OperatorDetails() {
  const operator = useQuery(operatorQuery());
  if (operator.isPending) {
    return (
      <div role="status">
        <span className="sr-only">Loading the operator...</span>
        <Skeleton className="h-24" />
      </div>
    );
  }
  if (!operator.data) {
    return (
      <div role="alert" className="grid justify-items-start gap-3">
        <p>The operator's name and address could not be loaded.</p>
        <Button variant="secondary" size="small" disabled={operator.isFetching} onClick={() => void operator.refetch()}>
          Try again
        </Button>
      </div>
    );
  }
  const { name, address, email } = operator.data;
  const isReachable = address !== null || email !== null;
  return (
    <div className="grid min-h-24 content-start gap-3 [overflow-wrap:anywhere]">
      {name ? (
        <p>
          This site is run by{" "}
          <strong dir="auto" className="font-semibold text-foreground">
            {name}
          </strong>
          .
        </p>
      ) : (
        isReachable && <p>The operator of this site has not published a name. You can reach the operator here:</p>
      )}
      {isReachable && (
        <address className="grid gap-1 not-italic">
          {address && (
            <span dir="auto" className="whitespace-pre-line">
              {address}
            </span>
          )}
          {email && (
            <a href={`mailto:${email}`} className="justify-self-start text-primary underline underline-offset-2">
              {email}
            </a>
          )}
        </address>
      )}
      {!isReachable && (
        <p>
          {name
            ? "An address has not been published here yet."
            : "The operator of this site has not published a name or an address here yet."}{" "}
          To reach the operator, ask the person who invited you or gave you the address of this site.
        </p>
      )}
      <p>“We” on this page means the operator.</p>
    </div>
  );
}
