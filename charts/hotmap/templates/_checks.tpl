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
{{- $source := `(?i:configmaps?|cm|secrets?|spc|secretproviderclass(es)?)/[-.a-z0-9*?\[\]!]+` -}}
{{- $rules := dict
    "resourceLabelSelector" (list $label "a label selector such as team=a")
    "follow" (list (printf "(auto|off|%s)" $source) "auto, off or a list such as configmap/app,secret/db-*") -}}
{{- if $settings.watchGlobally -}}
{{- $_ := set $rules "namespaceSelector" (list $label "a label selector such as team=a") -}}
{{- if not (include "hotmap.compat" .) -}}
{{- $_ := set $rules "ignoreNamespaces" (list "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?" "names of namespaces separated by commas") -}}
{{- end -}}
{{- end -}}
{{- range $key, $rule := $rules -}}
{{- with get $settings $key -}}
{{- if not (regexMatch (printf `^["']?\s*%[1]s(\s*,\s*%[1]s)*\s*["']?$` (index $rule 0)) .) -}}
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
{{- if not (regexMatch `^\s*["']?\s*(?i:https?)://[^/?#]` .) -}}
{{- fail "invalid webhookUrl (not shown): expected an http or https URL" -}}
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
