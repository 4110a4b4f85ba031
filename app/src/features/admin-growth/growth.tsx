import { useQuery } from "@tanstack/react-query";
import { ErrorState } from "@/components/page-state";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { messageOf } from "@/lib/errors";
import { formatUsd } from "@/lib/usd";
import { DayChart } from "./day-chart";
import { growthDays, growthQuery } from "./queries";

const count = (number: number) => number.toLocaleString("en-US");

/** How the site grew over the last ninety days. */
export function Growth() {
  const growth = useQuery(growthQuery());
  return (
    <section aria-labelledby="growth-title" className="mt-10">
      <h2 id="growth-title" className="text-heading">
        The last {growthDays} days
      </h2>
      <div className="mt-4">
        {growth.isPending ? (
          <div role="status" className="grid gap-4 md:grid-cols-3">
            <span className="sr-only">Loading charts...</span>
            {["first", "second", "third"].map((chart) => (
              <Skeleton key={chart} className="h-61 rounded-xl" />
            ))}
          </div>
        ) : !growth.data ? (
          <Card>
            <ErrorState
              size="small"
              heading="h3"
              title="The charts could not be loaded"
              description={messageOf(growth.error)}
              retrying={growth.isFetching}
              onRetry={() => void growth.refetch()}
            />
          </Card>
        ) : (
          <Charts days={growth.data} />
        )}
      </div>
    </section>
  );
}

interface Day {
  day: string;
  sign_ups: number;
  active_subscriptions: number;
  monthly_revenue: number;
}

function Charts({ days }: { days: Day[] }) {
  const today = days.at(-1);
  const first = days[0];
  const signUps = days.reduce((sum, { sign_ups }) => sum + sign_ups, 0);
  const since = (now = 0, before = 0, format = count) =>
    now === 0 && before === 0
      ? "None yet"
      : now === before
        ? "As many as at the beginning"
        : `${format(before)} at the beginning`;
  return (
    <div className="grid gap-4 md:grid-cols-3">
      <DayChart
        title="Sign-ups"
        headline={count(signUps)}
        headlineHint={`${count(today?.sign_ups ?? 0)} today`}
        days={days.map(({ day, sign_ups }) => ({ day, value: sign_ups }))}
        format={count}
        look="bars"
      />
      <DayChart
        title="Active subscriptions"
        headline={count(today?.active_subscriptions ?? 0)}
        headlineHint={since(today?.active_subscriptions, first?.active_subscriptions)}
        days={days.map(({ day, active_subscriptions }) => ({ day, value: active_subscriptions }))}
        format={count}
        look="line"
      />
      <DayChart
        title="Monthly revenue"
        headline={formatUsd(today?.monthly_revenue ?? 0)}
        headlineHint={since(today?.monthly_revenue, first?.monthly_revenue, formatUsd)}
        days={days.map(({ day, monthly_revenue }) => ({ day, value: monthly_revenue }))}
        format={formatUsd}
        look="line"
      />
    </div>
  );
}
