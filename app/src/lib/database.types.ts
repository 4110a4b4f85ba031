export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

export type Database = {
  // supabase-js reads here which features of the REST API there are.
  __InternalSupabase: {
    PostgrestVersion: "14.12"
  }
  public: {
    Tables: {
      app_settings: {
        Row: {
          created_at: string
          id: string
          key: string
          updated_at: string
          value: NonNullable<Json>
        }
        Insert: {
          created_at?: string
          id?: string
          key: string
          updated_at?: string
          value: NonNullable<Json>
        }
        Update: {
          created_at?: string
          id?: string
          key?: string
          updated_at?: string
          value?: NonNullable<Json>
        }
        Relationships: []
      }
      audit_log: {
        Row: {
          action: string
          actor_id: string | null
          created_at: string
          details: NonNullable<Json>
          id: number
          subject: string
          subject_id: string | null
        }
        Insert: {
          action: string
          actor_id?: string | null
          created_at?: string
          details?: NonNullable<Json>
          id?: never
          subject: string
          subject_id?: string | null
        }
        Update: {
          action?: string
          actor_id?: string | null
          created_at?: string
          details?: NonNullable<Json>
          id?: never
          subject?: string
          subject_id?: string | null
        }
        Relationships: []
      }
      brand_assets: {
        Row: {
          asset_size: string
          asset_type: string
          asset_url: string
          created_at: string
          id: string
          updated_at: string
        }
        Insert: {
          asset_size: string
          asset_type?: string
          asset_url: string
          created_at?: string
          id?: string
          updated_at?: string
        }
        Update: {
          asset_size?: string
          asset_type?: string
          asset_url?: string
          created_at?: string
          id?: string
          updated_at?: string
        }
        Relationships: []
      }
      marketing_content: {
        Row: {
          created_at: string
          description: string | null
          hide_for_subscribed: boolean
          htmlcontent: string | null
          id: string
          imageurl: string | null
          primarybuttontext: string | null
          secondarybuttontext: string | null
          section: string
          subtitle: string | null
          title: string | null
          updated_at: string
          visible: boolean
        }
        Insert: {
          created_at?: string
          description?: string | null
          hide_for_subscribed?: boolean
          htmlcontent?: string | null
          id?: string
          imageurl?: string | null
          primarybuttontext?: string | null
          secondarybuttontext?: string | null
          section: string
          subtitle?: string | null
          title?: string | null
          updated_at?: string
          visible?: boolean
        }
        Update: {
          created_at?: string
          description?: string | null
          hide_for_subscribed?: boolean
          htmlcontent?: string | null
          id?: string
          imageurl?: string | null
          primarybuttontext?: string | null
          secondarybuttontext?: string | null
          section?: string
          subtitle?: string | null
          title?: string | null
          updated_at?: string
          visible?: boolean
        }
        Relationships: []
      }
      organizations: {
        Row: {
          created_at: string
          ein: string | null
          id: string
          logo_url: string | null
          mission: string | null
          name: string | null
          plan_id: string
          updated_at: string
          values: string | null
          vision: string | null
        }
        Insert: {
          created_at?: string
          ein?: string | null
          id?: string
          logo_url?: string | null
          mission?: string | null
          name?: string | null
          plan_id: string
          updated_at?: string
          values?: string | null
          vision?: string | null
        }
        Update: {
          created_at?: string
          ein?: string | null
          id?: string
          logo_url?: string | null
          mission?: string | null
          name?: string | null
          plan_id?: string
          updated_at?: string
          values?: string | null
          vision?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "organizations_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: true
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      person_settings: {
        Row: {
          time_zone: string
          updated_at: string
          user_id: string
        }
        Insert: {
          time_zone: string
          updated_at?: string
          user_id?: string
        }
        Update: {
          time_zone?: string
          updated_at?: string
          user_id?: string
        }
        Relationships: []
      }
      plan_activity: {
        Row: {
          action: string
          actor_id: string | null
          created_at: string
          detail: string | null
          id: number
          plan_id: string
          subject: string
          subject_id: string | null
          title: string | null
        }
        Insert: {
          action: string
          actor_id?: string | null
          created_at?: string
          detail?: string | null
          id?: never
          plan_id: string
          subject: string
          subject_id?: string | null
          title?: string | null
        }
        Update: {
          action?: string
          actor_id?: string | null
          created_at?: string
          detail?: string | null
          id?: never
          plan_id?: string
          subject?: string
          subject_id?: string | null
          title?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "plan_activity_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      plan_attachments: {
        Row: {
          created_at: string
          file_url: string
          id: string
          plan_id: string
          title: string
          updated_at: string
        }
        Insert: {
          created_at?: string
          file_url: string
          id?: string
          plan_id: string
          title: string
          updated_at?: string
        }
        Update: {
          created_at?: string
          file_url?: string
          id?: string
          plan_id?: string
          title?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "plan_attachments_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      plan_mail_settings: {
        Row: {
          digest: boolean
          mentions: boolean
          plan_id: string
          reminders: boolean
          updated_at: string
          user_id: string
        }
        Insert: {
          digest?: boolean
          mentions?: boolean
          plan_id: string
          reminders?: boolean
          updated_at?: string
          user_id?: string
        }
        Update: {
          digest?: boolean
          mentions?: boolean
          plan_id?: string
          reminders?: boolean
          updated_at?: string
          user_id?: string
        }
        Relationships: [
          {
            foreignKeyName: "plan_mail_settings_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      plan_members: {
        Row: {
          created_at: string
          email: string | null
          id: string
          invite_accepted: boolean
          invite_token: string | null
          invited_by: string | null
          plan_id: string
          role: string
          updated_at: string
          user_id: string | null
        }
        Insert: {
          created_at?: string
          email?: string | null
          id?: string
          invite_accepted?: boolean
          invite_token?: string | null
          invited_by?: string | null
          plan_id: string
          role?: string
          updated_at?: string
          user_id?: string | null
        }
        Update: {
          created_at?: string
          email?: string | null
          id?: string
          invite_accepted?: boolean
          invite_token?: string | null
          invited_by?: string | null
          plan_id?: string
          role?: string
          updated_at?: string
          user_id?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "plan_members_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      plan_report_links: {
        Row: {
          created_at: string
          created_by: string | null
          expires_at: string | null
          id: string
          last_used_at: string | null
          plan_id: string
          token: string
          valid_days: number | null
        }
        Insert: {
          created_at?: string
          created_by?: string | null
          expires_at?: string | null
          id?: string
          last_used_at?: string | null
          plan_id: string
          token?: string
          valid_days?: number | null
        }
        Update: {
          created_at?: string
          created_by?: string | null
          expires_at?: string | null
          id?: string
          last_used_at?: string | null
          plan_id?: string
          token?: string
          valid_days?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "plan_report_links_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plan_reports"
            referencedColumns: ["plan_id"]
          },
        ]
      }
      plan_reports: {
        Row: {
          comment: string | null
          created_at: string
          excluded_priorities: string[]
          first_day: string
          last_day: string
          plan_id: string
          time_zone: string
          updated_at: string
        }
        Insert: {
          comment?: string | null
          created_at?: string
          excluded_priorities?: string[]
          first_day: string
          last_day: string
          plan_id: string
          time_zone?: string
          updated_at?: string
        }
        Update: {
          comment?: string | null
          created_at?: string
          excluded_priorities?: string[]
          first_day?: string
          last_day?: string
          plan_id?: string
          time_zone?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "plan_reports_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: true
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      plans: {
        Row: {
          archived_at: string | null
          created_at: string
          deleted_at: string | null
          description: string | null
          estimated_end_date: string | null
          id: string
          start_date: string | null
          title: string
          updated_at: string
          user_id: string | null
        }
        Insert: {
          archived_at?: string | null
          created_at?: string
          deleted_at?: string | null
          description?: string | null
          estimated_end_date?: string | null
          id?: string
          start_date?: string | null
          title: string
          updated_at?: string
          user_id?: string | null
        }
        Update: {
          archived_at?: string | null
          created_at?: string
          deleted_at?: string | null
          description?: string | null
          estimated_end_date?: string | null
          id?: string
          start_date?: string | null
          title?: string
          updated_at?: string
          user_id?: string | null
        }
        Relationships: []
      }
      priorities: {
        Row: {
          created_at: string
          description: string | null
          id: string
          plan_id: string
          position: number
          title: string
          updated_at: string
        }
        Insert: {
          created_at?: string
          description?: string | null
          id?: string
          plan_id: string
          position?: number
          title: string
          updated_at?: string
        }
        Update: {
          created_at?: string
          description?: string | null
          id?: string
          plan_id?: string
          position?: number
          title?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "priorities_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
        ]
      }
      stripe_customers: {
        Row: {
          created_at: string
          livemode: boolean
          stripe_customer_id: string
          updated_at: string
          user_id: string
        }
        Insert: {
          created_at?: string
          livemode: boolean
          stripe_customer_id: string
          updated_at?: string
          user_id: string
        }
        Update: {
          created_at?: string
          livemode?: boolean
          stripe_customer_id?: string
          updated_at?: string
          user_id?: string
        }
        Relationships: []
      }
      subscription_plans: {
        Row: {
          active: boolean
          created_at: string
          description: string | null
          features: NonNullable<Json>
          id: string
          interval: string
          is_free: boolean
          max_bytes: number | null
          max_members: number | null
          max_plans: number | null
          name: string
          price: number
          stripe_price_id: string
          updated_at: string
        }
        Insert: {
          active?: boolean
          created_at?: string
          description?: string | null
          features?: NonNullable<Json>
          id?: string
          interval?: string
          is_free?: boolean
          max_bytes?: number | null
          max_members?: number | null
          max_plans?: number | null
          name: string
          price: number
          stripe_price_id: string
          updated_at?: string
        }
        Update: {
          active?: boolean
          created_at?: string
          description?: string | null
          features?: NonNullable<Json>
          id?: string
          interval?: string
          is_free?: boolean
          max_bytes?: number | null
          max_members?: number | null
          max_plans?: number | null
          name?: string
          price?: number
          stripe_price_id?: string
          updated_at?: string
        }
        Relationships: []
      }
      subscription_prompt: {
        Row: {
          created_at: string
          delay_seconds: number
          features: NonNullable<Json>
          id: string
          image_url: string | null
          primary_button_text: string
          secondary_button_text: string
          subtitle: string | null
          title: string
          updated_at: string
        }
        Insert: {
          created_at?: string
          delay_seconds?: number
          features?: NonNullable<Json>
          id?: string
          image_url?: string | null
          primary_button_text?: string
          secondary_button_text?: string
          subtitle?: string | null
          title?: string
          updated_at?: string
        }
        Update: {
          created_at?: string
          delay_seconds?: number
          features?: NonNullable<Json>
          id?: string
          image_url?: string | null
          primary_button_text?: string
          secondary_button_text?: string
          subtitle?: string | null
          title?: string
          updated_at?: string
        }
        Relationships: []
      }
      task_comments: {
        Row: {
          author_id: string | null
          body: string
          created_at: string
          id: string
          mentions: string[]
          plan_id: string
          task_id: string
          updated_at: string
        }
        Insert: {
          author_id?: string | null
          body: string
          created_at?: string
          id?: string
          mentions?: string[]
          plan_id?: string
          task_id: string
          updated_at?: string
        }
        Update: {
          author_id?: string | null
          body?: string
          created_at?: string
          id?: string
          mentions?: string[]
          plan_id?: string
          task_id?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "task_comments_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "task_comments_task"
            columns: ["task_id", "plan_id"]
            isOneToOne: false
            referencedRelation: "tasks"
            referencedColumns: ["id", "plan_id"]
          },
        ]
      }
      tasks: {
        Row: {
          completed_at: string | null
          created_at: string
          description: string | null
          due_date: string | null
          id: string
          is_completed: boolean
          measure_success: string | null
          plan_id: string
          position: number
          priority_id: string
          responsible_ids: string[]
          responsible_party: string[]
          title: string
          updated_at: string
        }
        Insert: {
          completed_at?: string | null
          created_at?: string
          description?: string | null
          due_date?: string | null
          id?: string
          is_completed?: boolean
          measure_success?: string | null
          plan_id?: string
          position?: number
          priority_id: string
          responsible_ids?: string[]
          responsible_party?: string[]
          title: string
          updated_at?: string
        }
        Update: {
          completed_at?: string | null
          created_at?: string
          description?: string | null
          due_date?: string | null
          id?: string
          is_completed?: boolean
          measure_success?: string | null
          plan_id?: string
          position?: number
          priority_id?: string
          responsible_ids?: string[]
          responsible_party?: string[]
          title?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "tasks_plan_id_fkey"
            columns: ["plan_id"]
            isOneToOne: false
            referencedRelation: "plans"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "tasks_priority"
            columns: ["priority_id", "plan_id"]
            isOneToOne: false
            referencedRelation: "priorities"
            referencedColumns: ["id", "plan_id"]
          },
        ]
      }
      user_roles: {
        Row: {
          created_at: string
          role: string
          updated_at: string
          user_id: string
        }
        Insert: {
          created_at?: string
          role: string
          updated_at?: string
          user_id: string
        }
        Update: {
          created_at?: string
          role?: string
          updated_at?: string
          user_id?: string
        }
        Relationships: []
      }
      user_subscriptions: {
        Row: {
          cancel_at: string | null
          cancel_at_period_end: boolean
          created_at: string
          current_period_end: string | null
          ended_at: string | null
          id: string
          last_event_id: string | null
          livemode: boolean
          state_as_of: string
          status: string
          stripe_customer_id: string
          stripe_price_id: string | null
          stripe_subscription_id: string
          trial_end: string | null
          updated_at: string
          user_id: string
        }
        Insert: {
          cancel_at?: string | null
          cancel_at_period_end?: boolean
          created_at?: string
          current_period_end?: string | null
          ended_at?: string | null
          id?: string
          last_event_id?: string | null
          livemode?: boolean
          state_as_of: string
          status: string
          stripe_customer_id: string
          stripe_price_id?: string | null
          stripe_subscription_id: string
          trial_end?: string | null
          updated_at?: string
          user_id: string
        }
        Update: {
          cancel_at?: string | null
          cancel_at_period_end?: boolean
          created_at?: string
          current_period_end?: string | null
          ended_at?: string | null
          id?: string
          last_event_id?: string | null
          livemode?: boolean
          state_as_of?: string
          status?: string
          stripe_customer_id?: string
          stripe_price_id?: string | null
          stripe_subscription_id?: string
          trial_end?: string | null
          updated_at?: string
          user_id?: string
        }
        Relationships: []
      }
      webhook_events: {
        Row: {
          attempts: number
          created_at: string
          error_message: string | null
          event_created_at: string | null
          event_type: string
          id: string
          next_attempt_at: string | null
          outcome: string | null
          payload: NonNullable<Json>
          processed_at: string | null
          source: string
          status: string
          updated_at: string
        }
        Insert: {
          attempts?: number
          created_at?: string
          error_message?: string | null
          event_created_at?: string | null
          event_type: string
          id: string
          next_attempt_at?: string | null
          outcome?: string | null
          payload: NonNullable<Json>
          processed_at?: string | null
          source?: string
          status?: string
          updated_at?: string
        }
        Update: {
          attempts?: number
          created_at?: string
          error_message?: string | null
          event_created_at?: string | null
          event_type?: string
          id?: string
          next_attempt_at?: string | null
          outcome?: string | null
          payload?: NonNullable<Json>
          processed_at?: string | null
          source?: string
          status?: string
          updated_at?: string
        }
        Relationships: []
      }
    }
    Views: {
      [_ in never]: never
    }
    Functions: {
      accept_invitation: {
        Args: { plan: string; token: string }
        Returns: string
      }
      admin_growth: {
        Args: { days?: number }
        Returns: {
          active_subscriptions: number
          day: string
          monthly_revenue: number
          sign_ups: number
        }[]
      }
      admin_health: { Args: Record<PropertyKey, never>; Returns: Json }
      admin_list_audit_log: {
        Args: { page_offset?: number; page_size?: number; search_text?: string }
        Returns: {
          action: string
          actor_email: string
          actor_id: string
          actor_name: string
          created_at: string
          details: Json
          id: number
          subject: string
          subject_id: string
          total: number
        }[]
      }
      admin_list_users: {
        Args: { page_offset?: number; page_size?: number; search_text?: string }
        Returns: {
          created_at: string
          email: string
          id: string
          is_admin: boolean
          is_confirmed: boolean
          is_disabled: boolean
          last_sign_in_at: string
          name: string
          organization: string
          subscription_status: string
          total: number
        }[]
      }
      admin_set_user_disabled: {
        Args: { disabled: boolean; user_id: string }
        Returns: undefined
      }
      apply_subscription_state: { Args: { p: Json }; Returns: string }
      begin_invitation_mail: {
        Args: { member_id: string }
        Returns: {
          attempt_id: number
          expires_at: string
          token: string
        }[]
      }
      delete_my_account: { Args: { only_check?: boolean }; Returns: undefined }
      delete_plan_for_good: { Args: { plan: string }; Returns: string[] }
      delete_plan_item_for_good: { Args: { item: string }; Returns: string[] }
      duplicate_plan: { Args: { plan_id: string }; Returns: string }
      get_comment_counts: {
        Args: { plan: string }
        Returns: {
          comments: number
          task_id: string
        }[]
      }
      get_deleted_plan_items: {
        Args: { plan: string }
        Returns: {
          comments: number
          deleted_at: string
          deleted_by: string
          deleted_for_good_at: string
          id: string
          is_restorable: boolean
          kind: string
          priority_id: string
          tasks: number
          title: string
        }[]
      }
      get_deleted_plans: {
        Args: Record<PropertyKey, never>
        Returns: {
          deleted_at: string
          deleted_for_good_at: string
          id: string
          title: string
        }[]
      }
      get_invitation: {
        Args: { plan: string; token: string }
        Returns: {
          email: string
          expires_at: string
          has_account: boolean
          inviter: string
          is_proof: boolean
          plan_title: string
          role: string
        }[]
      }
      get_invitation_mails: {
        Args: { plan: string }
        Returns: {
          mailed_at: string
          member_id: string
          state: string
        }[]
      }
      get_my_limits: {
        Args: Record<PropertyKey, never>
        Returns: {
          bytes: number
          max_bytes: number
          max_members: number
          max_plans: number
          plan_name: string
          plans: number
        }[]
      }
      get_plan_limits: {
        Args: { plan: string }
        Returns: {
          bytes: number
          is_mine: boolean
          max_bytes: number
          max_members: number
          members: number
          plan_name: string
        }[]
      }
      get_plan_people: {
        Args: { plan: string }
        Returns: {
          email: string
          name: string
          picture: string
          role: string
          user_id: string
        }[]
      }
      get_plan_report: {
        Args: {
          excluded: string[]
          first_day: string
          last_day: string
          plan: string
          time_zone: string
        }
        Returns: Json
      }
      get_shared_report: { Args: { token: string }; Returns: Json }
      get_site_operator: {
        Args: Record<PropertyKey, never>
        Returns: {
          address: string
          email: string
          name: string
        }[]
      }
      get_user_email_by_id: {
        Args: { user_id_to_search: string }
        Returns: string
      }
      get_user_plan_role: {
        Args: { plan_id: string; user_id: string }
        Returns: string
      }
      get_user_subscription: {
        Args: { user_id: string }
        Returns: {
          cancel_at_period_end: boolean
          current_period_end: string
          plan_features: Json
          plan_name: string
          status: string
          subscription_id: string
        }[]
      }
      get_webhook_events: {
        Args: {
          page_offset?: number
          page_size?: number
          search_text?: string
          source_filter?: string
        }
        Returns: {
          created_at: string
          error_message: string
          event_type: string
          id: string
          payload: Json
          processed_at: string
          source: string
          status: string
        }[]
      }
      is_admin: { Args: Record<PropertyKey, never>; Returns: boolean }
      move_plan_to_bin: { Args: { plan: string }; Returns: string[] }
      move_priority: {
        Args: { before_id?: string; priority_id: string }
        Returns: {
          created_at: string
          description: string | null
          id: string
          plan_id: string
          position: number
          title: string
          updated_at: string
        }[]
        SetofOptions: {
          from: "*"
          to: "priorities"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      move_task: {
        Args: { before_id?: string; task_id: string }
        Returns: {
          completed_at: string | null
          created_at: string
          description: string | null
          due_date: string | null
          id: string
          is_completed: boolean
          measure_success: string | null
          plan_id: string
          position: number
          priority_id: string
          responsible_ids: string[]
          responsible_party: string[]
          title: string
          updated_at: string
        }[]
        SetofOptions: {
          from: "*"
          to: "tasks"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      note_invitation_mail: {
        Args: { attempt_id: number; mail_id: number; refusal: string }
        Returns: undefined
      }
      plan_exists: { Args: { plan: string }; Returns: boolean }
      restore_plan: { Args: { plan: string }; Returns: string[] }
      restore_plan_item: { Args: { item: string }; Returns: string[] }
    }
    Enums: {
      [_ in never]: never
    }
    CompositeTypes: {
      [_ in never]: never
    }
  }
}

type Schemas = Omit<Database, "__InternalSupabase">

type DefaultSchema = Schemas["public"]

type SchemaOption = { schema: keyof Schemas }

type SchemaOf<Options> = Options extends SchemaOption
  ? Schemas[Options["schema"]]
  : DefaultSchema

type Relations<Schema extends { Tables: unknown; Views: unknown }> =
  Schema["Tables"] & Schema["Views"]

type Choice<All, Options, Name> = Options extends SchemaOption
  ? Name extends keyof All
    ? All[Name]
    : never
  : Options extends keyof All
    ? All[Options]
    : never

type Part<Relation, Key extends string> = Relation extends {
  [_ in Key]: infer Found
}
  ? Found
  : never

/** A row as it is read: `Tables<"plans">`, `Tables<{ schema: "other" }, "plans">`. */
export type Tables<
  Options extends keyof Relations<DefaultSchema> | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof Relations<SchemaOf<Options>>
    : never = never,
> = Part<Choice<Relations<SchemaOf<Options>>, Options, Name>, "Row">

/** A row as it is inserted. */
export type TablesInsert<
  Options extends keyof DefaultSchema["Tables"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Tables"]
    : never = never,
> = Part<Choice<SchemaOf<Options>["Tables"], Options, Name>, "Insert">

/** What may be changed of a row. */
export type TablesUpdate<
  Options extends keyof DefaultSchema["Tables"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Tables"]
    : never = never,
> = Part<Choice<SchemaOf<Options>["Tables"], Options, Name>, "Update">

/** The labels of an enum. */
export type Enums<
  Options extends keyof DefaultSchema["Enums"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Enums"]
    : never = never,
> = Choice<SchemaOf<Options>["Enums"], Options, Name>

/** A composite type. */
export type CompositeTypes<
  Options extends keyof DefaultSchema["CompositeTypes"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["CompositeTypes"]
    : never = never,
> = Choice<SchemaOf<Options>["CompositeTypes"], Options, Name>

export const Constants = {
  public: {
    Enums: {},
  },
} as const
