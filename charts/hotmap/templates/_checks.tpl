{{/* Fails for a null in place of a map, whose default Helm then leaves out. */}}
{{- define "hotmap.checkMaps" -}}
{{- range $name := list "image" "rbac" "permissions" "serviceAccount" "status" "agents" "leaderElection" "deployment" "podDisruptionBudget" "netpol" "podMonitor" "serviceMonitor" "prometheusRule" "dashboard" "verticalPodAutoscaler" -}}
{{- if not (kindIs "map" (get $.Values $name)) -}}
{{- fail (printf "%s is null: leave it out" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "env" "pod" -}}
{{- if not (kindIs "map" (get $.Values.deployment $name)) -}}
{{- fail (printf "deployment.%s is null: leave it out" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Texts that the controller would refuse at its start, with its own rules and words. */}}
{{- define "hotmap.checkTexts" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $name := `([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?` -}}
{{- $value := `([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?` -}}
{{- /* Reloader's own k:v and k:* as well. */ -}}
{{- $label := printf `(!?\s*%[1]s|%[1]s\s*(=|==|!=|:)\s*%[2]s|%[1]s\s*(==?|:)\s*\*|%[1]s\s*[<>]\s*\d+|%[1]s\s+(not)?in\s*\(\s*%[2]s(\s*,\s*%[2]s)*\s*\))?` $name $value -}}
{{- $source := `(?i:configmaps?|cm|secrets?|spc|secretproviderclass(es)?)/([-.a-z0-9*?]|\[!?[-.a-z0-9]+\])+` -}}
{{- $rules := dict
    "resourceLabelSelector" (list $label "a label selector such as team=a")
    "follow" (list $source "auto, off or a list such as configmap/app,secret/db-*") -}}
{{- if $settings.watchGlobally -}}
{{- $_ := set $rules "namespaceSelector" (list $label "a label selector such as team=a") -}}
{{- if not (include "hotmap.compat" .) -}}
{{- $_ := set $rules "ignoreNamespaces" (list "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?" "names of namespaces separated by commas") -}}
{{- end -}}
{{- end -}}
{{- range $key, $rule := $rules -}}
{{- with get $settings $key -}}
{{- $isFollow := eq $key "follow" -}}
{{- $isWord := and $isFollow (has . (list "auto" "off")) -}}
{{- /* Quotes are dropped from the flags that Reloader has too. */ -}}
{{- $quote := ternary "" `["']?` $isFollow -}}
{{- if not (or $isWord (regexMatch (printf `^%[2]s\s*%[1]s(\s*,\s*%[1]s)*\s*%[2]s$` (index $rule 0) $quote) .)) -}}
{{- fail (printf "invalid %s %q: expected %s" $key . (index $rule 1)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := fromYaml (include "hotmap.annotationFlags" .) -}}
{{- with get ($settings.custom_annotations | default dict) $key -}}
{{- if not (regexMatch (printf "^(?i:%s)$" $name) .) -}}
{{- fail (printf "invalid custom_annotations.%s %q: expected a name such as example.com/reload" $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $settings.webhookUrl -}}
{{- if not (regexMatch `^\s*["']?\s*(?i:https?)://([^/?#]*@)?([^/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:0*[1-9]\d{0,4})?([/?#].*|["'\s]*)$` .) -}}
{{- fail "invalid webhookUrl (not shown): expected an http or https URL" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a duration that the schema allows, such as 1m30s. */}}
{{- define "hotmap.seconds" -}}
{{- $seconds := 0.0 -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- range regexFindAll `[0-9.]+(ms|s|m|h)` . -1 -}}
{{- $unit := regexFind `[a-z]+` . -}}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit .) (get $units $unit)) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/* Durations that the controller would refuse at its start, with its own rules. */}}
{{- define "hotmap.checkTimes" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $seconds := dict -}}
{{- range $name := list "settle" "settleMax" -}}
{{- $text := get $settings $name | default "" -}}
{{- $_ := set $seconds $name (include "hotmap.seconds" $text | float64) -}}
{{- if gt (get $seconds $name) 3600.0 -}}
{{- fail (printf "invalid %s %q: must not exceed 1h" $name $text) -}}
{{- end -}}
{{- end -}}
{{- /* An argument of one's own takes precedence, and is left to the controller. */ -}}
{{- $isReplaced := regexMatch `(^| )--settle` ($settings.extraArgs | default list | join " ") -}}
{{- if and $settings.settleMax (not $isReplaced) (lt $seconds.settleMax (ternary $seconds.settle 0.5 (not (not $settings.settle)))) -}}
{{- fail (printf "invalid settleMax %q: must not be shorter than settle, which is %s" $settings.settleMax ($settings.settle | default "500ms")) -}}
{{- end -}}
{{- $given := dict -}}
{{- if not $settings.shadow -}}
{{- range $name, $text := $settings.leaderElection | default dict -}}
{{- if $text -}}{{- $_ := set $given $name $text -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if $given -}}
{{- $reloaders := dict "leaseDuration" "15s" "renewDeadline" "10s" "retryPeriod" "2s" -}}
{{- $ours := dict "leaseDuration" "10s" "renewDeadline" "7s" "retryPeriod" "2s" -}}
{{- $times := mergeOverwrite (ternary $reloaders $ours (eq (include "hotmap.compat" .) "true")) $given -}}
{{- $duration := include "hotmap.seconds" $times.leaseDuration | float64 -}}
{{- $deadline := include "hotmap.seconds" $times.renewDeadline | float64 -}}
{{- $retry := include "hotmap.seconds" $times.retryPeriod | float64 -}}
{{- if or (lt $duration 1.0) (gt $duration 600.0) (ne $duration (floor $duration)) -}}
{{- fail (printf "invalid leaderElection.leaseDuration %q: expected whole seconds from 1s to 10m" $times.leaseDuration) -}}
{{- end -}}
{{- if lt $retry 0.1 -}}
{{- fail (printf "invalid leaderElection.retryPeriod %q: expected 100ms or more" $times.retryPeriod) -}}
{{- end -}}
{{- if le $duration $deadline -}}
{{- fail (printf "leaderElection.renewDeadline, %s, must be shorter than leaseDuration, %s" $times.renewDeadline $times.leaseDuration) -}}
{{- end -}}
{{- if le $deadline (mulf 1.2 $retry) -}}
{{- fail (printf "1.2 times leaderElection.retryPeriod, %s, must be shorter than renewDeadline, %s" $times.retryPeriod $times.renewDeadline) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Values that the schema cannot judge: fails with one sentence. */}}
{{- define "hotmap.check" -}}
{{- range $name := list "nameOverride" "fullnameOverride" -}}
{{- with get $.Values $name -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .) -}}
{{- fail (printf "invalid %s %q: expected lower case letters, digits and -" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $image := include "hotmap.image" . -}}
{{- if not (regexMatch `^([A-Za-z0-9][-A-Za-z0-9._]*(:[0-9]+)?/)?[a-z0-9][-a-z0-9._]*(/[a-z0-9][-a-z0-9._]*)*(:[A-Za-z0-9_][-A-Za-z0-9._]{0,127})?(@sha256:[0-9a-f]{64})?$` $image) -}}
{{- fail (printf "invalid image %q: expected a repository such as registry.example.com/hotmap, and a tag such as %s" $image .Chart.AppVersion) -}}
{{- end -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- if not $settings.watchGlobally -}}
{{- range splitList "," (include "hotmap.namespaces" .) -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" .) -}}
{{- fail (printf "invalid name %q in namespaces: expected names of namespaces, as a list or separated by commas" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "hotmap.checkTexts" . -}}
{{- include "hotmap.checkTimes" . -}}
{{- if and .Values.enableHA (lt (include "hotmap.replicas" . | int) 2) -}}
{{- fail (printf "enableHA is true and replicas is %s: set replicas to 2 or more, or leave it out" (include "hotmap.replicas" .)) -}}
{{- end -}}
{{- $levels := list "trace" "debug" "info" "warn" "warning" "error" "fatal" "panic" -}}
{{- with $settings.logLevel -}}
{{- if not (or (has (lower .) $levels) (include "hotmap.compat" $)) -}}
{{- fail (printf "invalid logLevel %q: expected one of %s" . (join ", " $levels)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
