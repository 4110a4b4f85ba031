import { useQuery } from "@tanstack/react-query";
import { SlidersHorizontalIcon } from "lucide-react";
import { ErrorState, PageState } from "@/components/page-state";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { formatInstant } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { settingListQuery } from "./queries";

/** All settings, to look at: key, time and value. Keys for other services are masked by the server. */
export function SettingList() {
  const settings = useQuery(settingListQuery());
  return (
    <Card>
      <div className="border-b px-5 py-4 sm:px-6">
        <h2 className="text-heading">General</h2>
        <p className="mt-1 text-muted-foreground text-sm">
          All settings as they are stored. Each is changed on its own page.
        </p>
      </div>
      {settings.isPending ? (
        <div role="status" className="grid gap-3 p-5 sm:p-6">
          <span className="sr-only">Loading settings...</span>
          <Skeleton className="h-24" />
          <Skeleton className="h-24" />
        </div>
      ) : !settings.data ? (
        <ErrorState
          size="small"
          heading="h3"
          title="Failed to load settings."
          description={messageOf(settings.error)}
          retrying={settings.isFetching}
          onRetry={() => void settings.refetch()}
        />
      ) : settings.data.length === 0 ? (
        <PageState
          size="small"
          heading="h3"
          art={<SlidersHorizontalIcon className="size-8 text-muted-foreground" aria-hidden />}
          title="No settings yet"
          description="They appear here once something is saved, the e-mail integration say."
        />
      ) : (
        <ul aria-label="Settings">
          {settings.data.map(({ id, key, value, updated_at }) => (
            <li key={id} className="grid gap-3 border-b px-5 py-4 last:border-b-0 sm:px-6">
              <div className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
                <h3 className="font-mono font-semibold text-sm [overflow-wrap:anywhere]">{key}</h3>
                <p className="text-muted-foreground text-sm">
                  Last updated: <time dateTime={updated_at}>{formatInstant(updated_at)}</time>
                </p>
              </div>
              <pre className="max-h-72 overflow-auto whitespace-pre-wrap rounded-md bg-muted p-3 font-mono text-xs leading-relaxed [overflow-wrap:anywhere]">
                {JSON.stringify(value, null, 2)}
              </pre>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
