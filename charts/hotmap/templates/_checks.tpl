{{/* Fails for a null in place of a map, whose default Helm then leaves out. */}}
{{- define "hotmap.checkMaps" -}}
{{- range $name := list "image" "rbac" "permissions" "serviceAccount" "status" "agents" "deployment" "podDisruptionBudget" "netpol" "podMonitor" "serviceMonitor" "prometheusRule" "dashboard" "verticalPodAutoscaler" -}}
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

{{/* Values that the schema cannot judge: fails with one sentence. */}}
{{- define "hotmap.check" -}}
{{- range $name := list "nameOverride" "fullnameOverride" -}}
{{- with get $.Values $name -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .) -}}
{{- fail (printf "invalid %s %q: expected lower case letters, digits and -" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- if not $settings.watchGlobally -}}
{{- range splitList "," (include "hotmap.namespaces" .) -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" .) -}}
{{- fail (printf "invalid name %q in namespaces: expected names of namespaces, as a list or separated by commas" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
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
