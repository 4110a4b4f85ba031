import { useQuery } from "@tanstack/react-query";
import { ArrowLeftIcon } from "lucide-react";
import { Link } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { ErrorState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { subscriptionQuery } from "@/features/auth/subscription";
import { SubscriptionPage } from "@/features/billing/subscription-page";
import { messageOf } from "@/lib/errors";
import { useUser } from "../guards";

export function Component() {
  const user = useUser();
  const subscription = useQuery(subscriptionQuery(user.id));
  return (
    <div className="mx-auto max-w-6xl px-4 py-8 sm:px-6 sm:py-10">
      <Button asChild variant="ghost" size="small" className="mb-2 -ml-3 text-muted-foreground">
        <Link to="/dashboard">
          <ArrowLeftIcon aria-hidden className="rtl:-scale-x-100" />
          Back to plans
        </Link>
      </Button>
      <PageHeading title="Subscription" subtitle="Your organization's plan, and what it is billed." />
      {subscription.isPending ? (
        <div role="status" className="grid gap-5 lg:grid-cols-[1.6fr_1fr]">
          <span className="sr-only">Loading your subscription...</span>
          <Skeleton className="h-72 rounded-xl" />
          <Skeleton className="h-72 rounded-xl" />
        </div>
      ) : subscription.data === undefined ? (
        <Card>
          <ErrorState
            title="Your subscription could not be loaded"
            description={messageOf(subscription.error)}
            retrying={subscription.isFetching}
            onRetry={() => void subscription.refetch()}
          />
        </Card>
      ) : (
        <SubscriptionPage
          subscription={subscription.data}
          onRefresh={() => subscription.refetch({ throwOnError: true })}
        />
      )}
    </div>
  );
}
