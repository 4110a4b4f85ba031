import { useQuery } from "@tanstack/react-query";
import { ArrowLeftIcon, PrinterIcon } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import { Link, useParams } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";
import { lazyPart } from "@/components/lazy-part";
import { ErrorState, LoadingState, PageState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { planQuery, planRoleQuery } from "@/features/plans/queries";
import { priorityListQuery } from "@/features/priorities/queries";
import {
  type ReportScope,
  type ReportSettings,
  reportQuery,
  reportSettingsQuery,
  sharedReportQuery,
} from "@/features/report/queries";
import { ReportView } from "@/features/report/report-view";
import { type ReportSettingsValues, valuesOf } from "@/features/report/schema";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { ownTimeZone } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { canEdit } from "@/lib/plan-role";
import { useUser } from "../guards";

const ReportEditor = lazyPart(
  () => import("@/features/report/report-editor").then(({ ReportEditor }) => ReportEditor),
  <Skeleton className="h-160" />,
);

/** A plan's report for boards and funders: what it covers, the report itself, and links to it. */
export function PlanReport() {
  const { planId = "" } = useParams();
  const user = useUser();
  const plan = useQuery(planQuery(planId));
  const role = useQuery({ ...planRoleQuery(planId, user.id), enabled: plan.data != null });
  const settings = useQuery(reportSettingsQuery(planId));
  const priorities = useQuery(priorityListQuery(planId));
  useDocumentTitle(plan.data ? `${plan.data.title} report` : "Report");

  const failed = [plan, settings, priorities].find(({ isError, data }) => isError && data === undefined);
  if (failed || plan.data === null) {
    return (
      <ErrorState
        heading="h1"
        title={plan.data === null ? "Plan not found" : "The report could not be loaded"}
        description={failed ? messageOf(failed.error) : "It may have been deleted, or you are not a member of it."}
        onRetry={() => void Promise.all([plan.refetch(), settings.refetch(), priorities.refetch()])}
      />
    );
  }
  if (!plan.data || role.isPending || settings.data === undefined || !priorities.data) {
    return <LoadingState label="Loading the report..." />;
  }
  return (
    <ReportPage
      planId={planId}
      editable={canEdit(role.data ?? null)}
      settings={settings.data}
      priorities={priorities.data}
    />
  );
}

interface ReportPageProps {
  planId: string;
  editable: boolean;
  settings: ReportSettings | null;
  priorities: { id: string; title: string }[];
}

function ReportPage({ planId, editable, settings, priorities }: ReportPageProps) {
  const [typed, setTyped] = useState<{ values: ReportSettingsValues; isDirty: boolean } | null>(null);
  const preview = useCallback((values: ReportSettingsValues, isDirty: boolean) => setTyped({ values, isDirty }), []);
  const isDirty = typed?.isDirty ?? false;
  const values = typed && isDirty ? typed.values : valuesOf(settings);
  const scope: ReportScope = {
    firstDay: values.firstDay,
    lastDay: values.lastDay,
    excluded: values.excluded,
    // Saving makes it the zone of the person who changes the report.
    timeZone: isDirty || !settings ? ownTimeZone() : settings.time_zone,
  };
  const report = useQuery(reportQuery(planId, scope));
  return (
    <div className="mx-auto max-w-6xl px-4 py-4 sm:px-6 sm:py-8 print:max-w-none print:p-0">
      <div className="mb-6 flex flex-wrap justify-between gap-3 print:hidden">
        <Button asChild variant="secondary">
          <Link to={`/plan/${planId}`}>
            <ArrowLeftIcon aria-hidden className="rtl:-scale-x-100" />
            Back to the plan
          </Link>
        </Button>
        <Button disabled={!report.data} onClick={() => window.print()}>
          <PrinterIcon aria-hidden />
          Print or save as PDF
        </Button>
      </div>
      <div
        className={
          editable
            ? "grid gap-6 lg:grid-cols-[20rem_minmax(0,1fr)] lg:items-start lg:gap-8 print:block"
            : "mx-auto max-w-3xl print:max-w-none"
        }
      >
        {editable && (
          <div className="min-w-0 max-lg:order-2 print:hidden">
            <ReportEditor
              planId={planId}
              settings={settings}
              priorities={priorities}
              isDirty={isDirty}
              onPreview={preview}
            />
          </div>
        )}
        {report.data ? (
          <Card
            aria-busy={report.isPlaceholderData}
            className="min-w-0 p-5 sm:p-10 print:rounded-none print:border-0 print:p-0 print:shadow-none"
          >
            <ReportView report={report.data} comment={values.comment || null} />
          </Card>
        ) : report.isPending ? (
          <Skeleton className="h-[60rem]" />
        ) : (
          <ErrorState
            heading="h1"
            title="The report could not be loaded"
            description={report.isError ? messageOf(report.error) : "You are no longer a member of this plan."}
            retrying={report.isFetching}
            onRetry={() => void report.refetch()}
          />
        )}
      </div>
    </div>
  );
}

const nothingGrown = ["one", "two", "three"].map((key) => ({ key, percent: 0 }));

/** The report by its link, for people without an account. */
export function SharedReport() {
  const { token = "" } = useParams();
  const report = useQuery(sharedReportQuery(token));
  useDocumentTitle(report.data ? `${report.data.title} report` : "Report");
  useNoIndex();

  if (report.isPending) return <LoadingState label="Loading the report..." />;
  if (report.data === undefined) {
    return (
      <ErrorState
        heading="h1"
        title="The report could not be loaded"
        description={messageOf(report.error)}
        retrying={report.isFetching}
        onRetry={() => void report.refetch()}
      />
    );
  }
  if (report.data === null) {
    return (
      <PageState
        art={<ColumnsChart columns={nothingGrown} className="h-28" />}
        heading="h1"
        title="This report is not available"
        description="The link is incomplete, has expired, or was revoked. Please ask the person who sent it to you for a new one."
        className="min-h-[calc(100dvh-8rem)] justify-center"
      >
        <Button asChild variant="secondary">
          <Link to="/">Go to the home page</Link>
        </Button>
      </PageState>
    );
  }
  return (
    <div className="mx-auto max-w-4xl px-4 py-4 sm:px-6 sm:py-8 print:max-w-none print:p-0">
      <div className="mb-4 flex justify-end print:hidden">
        <Button variant="secondary" onClick={() => window.print()}>
          <PrinterIcon aria-hidden />
          Print or save as PDF
        </Button>
      </div>
      <Card className="p-5 sm:p-10 print:rounded-none print:border-0 print:p-0 print:shadow-none">
        <ReportView report={report.data} comment={report.data.comment ?? null} />
      </Card>
    </div>
  );
}

/** Search engines leave the page out, and pages it links to do not learn its address. */
function useNoIndex() {
  useEffect(() => {
    const tags = { robots: "noindex, nofollow", referrer: "no-referrer" };
    const added = Object.entries(tags).map(([name, content]) => {
      const tag = Object.assign(document.createElement("meta"), { name, content });
      document.head.append(tag);
      return tag;
    });
    return () => {
      for (const tag of added) tag.remove();
    };
  }, []);
}
