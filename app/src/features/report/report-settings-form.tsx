import { zodResolver } from "@hookform/resolvers/zod";
import { PencilIcon } from "lucide-react";
import { useEffect, useId, useState } from "react";
import { ConflictNote } from "@/components/conflict-note";
import { FormField } from "@/components/form-field";
import { RichText } from "@/components/rich-text";
import { RichTextField } from "@/components/rich-text-field";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { Checkbox } from "@/components/ui/checkbox";
import { DateInput } from "@/components/ui/input";
import { Label } from "@/components/ui/label";
import { Select } from "@/components/ui/select";
import { UnsavedGuard } from "@/components/unsaved-guard";
import { useRowForm } from "@/hooks/use-row-form";
import { formatDays } from "@/lib/dates";
import { useSaveReport } from "./mutations";
import { type Preset, periodOf, presetNames, presetOf, presets } from "./periods";
import type { ReportSettings } from "./queries";
import { commentLimit, type ReportSettingsValues, reportSettingsSchema, valuesOf } from "./schema";

interface ReportSettingsFormProps {
  planId: string;
  /** As they are now: they may change while they are edited. Null until they are saved for the first time. */
  settings: ReportSettings | null;
  priorities: { id: string; title: string }[];
  /** What is typed, saved or not. */
  onPreview: (values: ReportSettingsValues, isDirty: boolean) => void;
}

/** What the report covers, and the comment. */
export function ReportSettingsForm({ planId, settings, priorities, onPreview }: ReportSettingsFormProps) {
  const save = useSaveReport(planId);
  const { control, formState, register, setValue, watch, formProps, conflict } = useRowForm({
    row: settings,
    inputOf: valuesOf,
    resolver: zodResolver(reportSettingsSchema),
    save: ({ base, values }: { base: ReportSettings | null; values: ReportSettingsValues }) =>
      save.mutateAsync({ base, values: { ...values, excluded: values.excluded.filter(exists) } }),
  });
  const { errors } = formState;
  const { busy, dirty, onSubmit } = formProps;
  const values = watch();
  const { firstDay, lastDay, excluded, comment } = values;
  const [writing, setWriting] = useState(false);
  const [custom, setCustom] = useState(() => presetOf(values) === null);
  const period = custom ? "custom" : (presetOf(values) ?? "custom");

  const preview = JSON.stringify(values);
  useEffect(() => {
    const shown = reportSettingsSchema.safeParse(JSON.parse(preview));
    if (shown.success) onPreview(shown.data, dirty);
  }, [preview, dirty, onPreview]);

  function exists(id: string) {
    return priorities.some((priority) => priority.id === id);
  }

  function choosePeriod(name: Preset | "custom") {
    setCustom(name === "custom");
    if (name === "custom") return;
    const chosen = periodOf(name);
    const change = { shouldDirty: true, shouldValidate: true };
    setValue("firstDay", chosen.firstDay, change);
    setValue("lastDay", chosen.lastDay, change);
  }

  function include(id: string, wanted: boolean) {
    const others = excluded.filter((other) => other !== id && exists(other));
    setValue("excluded", wanted ? others : [...others, id].sort(), { shouldDirty: true });
  }

  return (
    <form noValidate aria-label="Report settings" onSubmit={onSubmit}>
      <fieldset disabled={busy} className="grid gap-5">
        {conflict && (
          <ConflictNote
            thing="report"
            onKeepMine={conflict.onKeepMine}
            onLoadTheirs={conflict.onLoadTheirs}
            rows={[
              { name: "Period", value: formatDays(conflict.theirs.firstDay, conflict.theirs.lastDay) },
              { name: "Comment", value: conflict.theirs.comment && <RichText html={conflict.theirs.comment} /> },
            ]}
          />
        )}
        <FormField label="Period" hint={custom ? undefined : formatDays(firstDay, lastDay)}>
          <Select value={period} onChange={({ target }) => choosePeriod(target.value as Preset | "custom")}>
            {presetNames.map((name) => (
              <option key={name} value={name}>
                {presets[name]}
              </option>
            ))}
            <option value="custom">Custom dates</option>
          </Select>
        </FormField>
        {period === "custom" && (
          <div className="grid grid-cols-[repeat(auto-fit,minmax(min(100%,9rem),1fr))] gap-4">
            <FormField label="First day" error={errors.firstDay?.message}>
              <DateInput {...register("firstDay")} />
            </FormField>
            <FormField label="Last day" error={errors.lastDay?.message}>
              <DateInput {...register("lastDay")} />
            </FormField>
          </div>
        )}
        <PriorityChoice priorities={priorities} excluded={excluded} disabled={busy} onInclude={include} />
        {writing || errors.comment ? (
          <RichTextField
            control={control}
            name="comment"
            label="Comment"
            disabled={busy}
            placeholder="What went well, what you learned, what you need"
          />
        ) : (
          // The editor weighs more than the screen around it.
          <Button variant="secondary" className="justify-self-start" onClick={() => setWriting(true)}>
            <PencilIcon aria-hidden />
            {comment ? "Edit the comment" : "Add a comment"}
          </Button>
        )}
        {comment.length > commentLimit * 0.8 && (
          <p role="status" className="text-muted-foreground text-xs">
            {comment.length.toLocaleString("en-US")} / {commentLimit.toLocaleString("en-US")}
          </p>
        )}
        <div className="flex justify-end">
          <SubmitButton busy={busy} busyLabel="Saving..." disabled={settings !== null && !dirty}>
            Save report
          </SubmitButton>
        </div>
      </fieldset>
      <UnsavedGuard when={dirty} />
    </form>
  );
}

interface PriorityChoiceProps {
  priorities: { id: string; title: string }[];
  excluded: string[];
  disabled: boolean;
  onInclude: (id: string, wanted: boolean) => void;
}

function PriorityChoice({ priorities, excluded, disabled, onInclude }: PriorityChoiceProps) {
  const id = useId();
  if (priorities.length === 0) return null;
  return (
    <fieldset className="min-w-0">
      <legend className="mb-2 font-medium text-sm">Priorities</legend>
      <div className="max-h-60 overflow-y-auto rounded-md border">
        {priorities.map((priority) => (
          <div
            key={priority.id}
            className="flex min-h-11 items-center gap-3 border-b px-3 py-2 last:border-0 md:min-h-9"
          >
            <Checkbox
              id={`${id}-${priority.id}`}
              checked={!excluded.includes(priority.id)}
              disabled={disabled}
              onCheckedChange={(checked) => onInclude(priority.id, checked === true)}
            />
            <Label
              htmlFor={`${id}-${priority.id}`}
              className="min-w-0 font-normal leading-snug [overflow-wrap:anywhere]"
            >
              {priority.title}
            </Label>
          </div>
        ))}
      </div>
    </fieldset>
  );
}
