import type { ComponentProps } from "react";
import { Card } from "@/components/ui/card";
import { ReportLinks } from "./report-links";
import { ReportSettingsForm } from "./report-settings-form";

interface ReportEditorProps extends ComponentProps<typeof ReportSettingsForm> {
  /** Something is typed and not saved. */
  isDirty: boolean;
}

/** What owners and managers do with a report, beside reading it. */
export function ReportEditor({ isDirty, ...form }: ReportEditorProps) {
  return (
    <div className="grid min-w-0 gap-6">
      <Card className="p-4">
        <h2 className="mb-4 text-label">What the report shows</h2>
        <ReportSettingsForm {...form} />
      </Card>
      <Card className="p-4">
        <section aria-labelledby="report-links">
          <h2 id="report-links" className="mb-2 text-label">
            Share with a link
          </h2>
          <ReportLinks planId={form.planId} isSaved={form.settings !== null} isDirty={isDirty} />
        </section>
      </Card>
    </div>
  );
}
