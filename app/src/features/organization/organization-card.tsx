import { useQuery } from "@tanstack/react-query";
import { ChevronDownIcon, PencilIcon } from "lucide-react";
import { useState } from "react";
import { lazyPart } from "@/components/lazy-part";
import { LogoPicture } from "@/components/logo-picture";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { useIsMobile } from "@/hooks/use-is-mobile";
import { cn } from "@/lib/cn";
import { type Organization, organizationQuery } from "./queries";

const OrganizationForm = lazyPart(
  () => import("./organization-form").then(({ OrganizationForm }) => OrganizationForm),
  <Skeleton className="h-96" />,
);

/** Who the plan is for: to read, and for owners and managers to edit. */
export function OrganizationCard({ planId, editable }: { planId: string; editable: boolean }) {
  const organization = useQuery(organizationQuery(planId));
  const [editing, setEditing] = useState(false);
  const loaded = organization.data !== undefined;
  // Nothing to read, and nothing to do.
  if (loaded && !organization.data && !editable) return null;
  return (
    <Card className="md:p-4">
      <section aria-label="Organization">
        {organization.isPending ? (
          <div role="status" className="flex items-center gap-4">
            <span className="sr-only">Loading the organization...</span>
            <Skeleton className="size-12" />
            <Skeleton className="h-5 w-48" />
          </div>
        ) : !loaded ? (
          <p className="flex flex-wrap items-center justify-between gap-3 text-sm">
            The organization's details could not be loaded.
            <Button variant="secondary" size="small" onClick={() => void organization.refetch()}>
              Try again
            </Button>
          </p>
        ) : editing ? (
          <OrganizationForm planId={planId} organization={organization.data ?? null} onDone={() => setEditing(false)} />
        ) : (
          <View organization={organization.data ?? null} onEdit={editable ? () => setEditing(true) : null} />
        )}
      </section>
    </Card>
  );
}

function View({ organization, onEdit }: { organization: Organization | null; onEdit: (() => void) | null }) {
  // On phones it is folded to a line: the first tasks are what people come for.
  const [unfolded, setUnfolded] = useState(false);
  const isMobile = useIsMobile();
  const name = organization?.name || "Organization";
  return (
    <div className="grid gap-2 md:gap-4">
      {isMobile && (
        <button
          type="button"
          aria-expanded={unfolded}
          className="flex min-h-11 items-center gap-3 rounded-xl px-3 text-start"
          onClick={() => setUnfolded(!unfolded)}
        >
          <span dir="auto" className="min-w-0 grow truncate text-label">
            {name}
          </span>
          <ChevronDownIcon
            aria-hidden
            className={cn("size-4 shrink-0 text-muted-foreground transition-transform", unfolded && "rotate-180")}
          />
        </button>
      )}
      {(!isMobile || unfolded) && <Details organization={organization} name={name} onEdit={onEdit} />}
    </div>
  );
}

interface DetailsProps {
  organization: Organization | null;
  name: string;
  onEdit: (() => void) | null;
}

function Details({ organization, name, onEdit }: DetailsProps) {
  const texts = [
    { name: "Mission", text: organization?.mission },
    { name: "Vision", text: organization?.vision },
    { name: "Values", text: organization?.values },
  ].filter(({ text }) => text);
  return (
    <>
      {/* On a narrow phone the button is below: beside it, the words of a name would break. */}
      <div className="flex items-center gap-4 max-md:px-3 max-md:pb-3 max-[400px]:flex-wrap">
        <LogoPicture url={organization?.logo_url ?? null} className="size-12" />
        <div className="min-w-0 grow max-[400px]:basis-[calc(100%-4rem)]">
          <h2 dir="auto" className="text-label [overflow-wrap:anywhere] max-md:sr-only">
            {name}
          </h2>
          <p className="text-muted-foreground text-sm">
            {organization?.ein ? `EIN ${organization.ein}` : !organization && "Say whose plan this is."}
          </p>
        </div>
        {onEdit && (
          <Button variant="secondary" size="small" className="print:hidden" onClick={onEdit}>
            <PencilIcon aria-hidden />
            Edit Org
          </Button>
        )}
      </div>
      {texts.length > 0 && (
        <dl className="grid gap-4 max-md:px-3 max-md:pb-3 md:grid-cols-3">
          {texts.map(({ name, text }) => (
            <div key={name} className="min-w-0">
              <dt className="font-medium text-muted-foreground text-xs">{name}</dt>
              <dd dir="auto" className="mt-1 whitespace-pre-line text-sm [overflow-wrap:anywhere]">
                {text}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}
