{{/*
The values as they apply: a value below `reloader`, where Reloader's chart has it, before the one of
the same name at the top level. Output: JSON.
*/}}
{{- define "hotmap.settings" -}}
{{- include "hotmap.checkMaps" . -}}
{{- $settings := fromJson (include "hotmap.overlay" (list (omit .Values "reloader") (.Values.reloader | default dict))) -}}
{{- $_ := set $settings.deployment "labels" (include "hotmap.ownLabelsOmitted" $settings.deployment.labels | fromJson) -}}
{{- $_ := set $settings "matchLabels" (include "hotmap.ownLabelsOmitted" $settings.matchLabels | fromJson) -}}
{{- /* As Reloader's chart has it: a variable without a value is left out. */ -}}
{{- range $place := list "open" "secret" "field" -}}
{{- $variables := dict -}}
{{- range $name, $value := (get $settings.deployment.env $place | default dict) -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) -}}{{- $_ := set $variables $name (include "hotmap.text" $value) -}}{{- end -}}
{{- end -}}
{{- $_ := set $settings.deployment.env $place $variables -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* A value as text; a number with all its digits, since toString writes 1e+06. */}}
{{- define "hotmap.text" -}}
{{- ternary (toJson .) (toString .) (kindIs "float64" .) -}}
{{- end -}}

{{/* Labels without those that the chart sets: selectors, and `hotmap status`, find pods by them. */}}
{{- define "hotmap.ownLabelsOmitted" -}}
{{- omit (. | default dict) "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" | toJson -}}
{{- end -}}

{{/*
The map `index . 0` with the values of `index . 1` in it, at any depth. A null removes a value, and leaves
a map as it is, since values files of Reloader have empty keys. Output: JSON.
*/}}
{{- define "hotmap.overlay" -}}
{{- $base := index . 0 -}}
{{- $result := deepCopy $base -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) -}}
{{- $_ := set $result $key (fromJson (include "hotmap.overlay" (list (get $base $key) $value))) -}}
{{- else if not (and (kindIs "invalid" $value) (kindIs "map" (get $base $key))) -}}
{{- $_ := set $result $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $result -}}
{{- end -}}

{{/* Whether Reloader's defaults apply: as `reloaderCompat` says, else where values below `reloader` are set. */}}
{{- define "hotmap.compat" -}}
{{- if kindIs "invalid" .Values.reloaderCompat -}}
{{- if .Values.reloader -}}true{{- end -}}
{{- else if .Values.reloaderCompat -}}true{{- end -}}
{{- end -}}

{{- define "hotmap.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Names of cluster-wide objects: two releases of the same name may be in two namespaces. */}}
{{- define "hotmap.clusterName" -}}
{{- $name := include "hotmap.fullname" . -}}
{{- if eq .Release.Namespace $name -}}{{- $name -}}
{{- else -}}{{- printf "%s-%s" .Release.Namespace $name -}}{{- end -}}
{{- end -}}

{{/* `hotmap status` finds the controller by these, so that they do not follow the names above. */}}
{{- define "hotmap.selectorLabels" -}}
app.kubernetes.io/name: hotmap
app.kubernetes.io/component: controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- with (fromJson (include "hotmap.settings" .)).matchLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hotmap.labels" -}}
app.kubernetes.io/name: hotmap
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "hotmap.serviceAccountName" -}}
{{- $account := (fromJson (include "hotmap.settings" .)).serviceAccount -}}
{{- if $account.create -}}{{- $account.name | default (include "hotmap.fullname" .) -}}
{{- else -}}{{- $account.name | default "default" -}}{{- end -}}
{{- end -}}

{{/* The served namespaces, separated by commas; nothing where all are served. */}}
{{- define "hotmap.namespaces" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $given := $settings.namespaces | default list -}}
{{- if kindIs "string" $given -}}{{- $given = splitList "," $given -}}{{- end -}}
{{- $names := list -}}
{{- range $given -}}{{- with trim . -}}{{- $names = append $names . -}}{{- end -}}{{- end -}}
{{- if $settings.watchGlobally -}}
{{- if $names -}}
{{- fail "namespaces is set but watchGlobally is true; set watchGlobally=false to serve only these" -}}
{{- end -}}
{{- else -}}
{{- $names | default (list .Release.Namespace) | uniq | sortAlpha | join "," -}}
{{- end -}}
{{- end -}}

{{/* How many pods run: as set, else two for high availability and one without. */}}
{{- define "hotmap.replicas" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $replicas := $settings.deployment.replicas -}}
{{- if kindIs "invalid" $replicas -}}{{- $replicas = $settings.replicas -}}{{- end -}}
{{- if kindIs "invalid" $replicas -}}{{- $replicas = ternary 2 1 (not (not $settings.enableHA)) -}}{{- end -}}
{{- int $replicas -}}
{{- end -}}

{{/*
What of an image is Reloader's own, as a values file of Reloader has it: with a repository or name of
hotmap's, only the parts that it does not replace; a digest is then taken for that image's.
Output: JSON, {"parts": names, "all": boolean}.
*/}}
{{- define "hotmap.reloadersImage" -}}
{{- $image := (fromJson (include "hotmap.settings" .)).image -}}
{{- $parts := list -}}
{{- $isNamed := false -}}
{{- range $part, $default := dict "name" "" "repository" "hotmap" -}}
{{- $text := get $image $part | default $default -}}
{{- if regexMatch "(^|/)reloader(-ubi)?$" $text -}}{{- $parts = append $parts $part -}}
{{- else if ne $text $default -}}{{- $isNamed = true -}}{{- end -}}
{{- end -}}
{{- $hasTag := regexMatch `^v\d+\.\d+\.\d+` ($image.tag | default "" | toString) -}}
{{- if and (or $parts $hasTag) (or (not $isNamed) (and $parts $hasTag)) -}}
{{- range $part := ternary (list "tag") (list "tag" "digest") $isNamed -}}
{{- if get $image $part -}}{{- $parts = append $parts $part -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "parts" $parts "all" (and (not $isNamed) (not (empty $parts))) | toJson -}}
{{- end -}}

{{- define "hotmap.image" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $image := $settings.image -}}
{{- range $part := (fromJson (include "hotmap.reloadersImage" .)).parts -}}{{- $image = omit $image $part -}}{{- end -}}
{{- $name := $image.repository | default "hotmap" -}}
{{- with ($settings.global | default dict).imageRegistry -}}
{{- $name = printf "%s/%s" . ($image.name | default $name) -}}
{{- end -}}
{{- if $image.digest -}}{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}{{- printf "%s:%s" $name (include "hotmap.text" ($image.tag | default $.Chart.AppVersion)) -}}{{- end -}}
{{- end -}}

{{/* Whether the controller may start CronJobs and recreate Jobs: as set, else with Reloader's defaults. */}}
{{- define "hotmap.changesJobs" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $set := $settings.permissions.jobs -}}
{{- if kindIs "invalid" $set -}}
{{- if and (include "hotmap.compat" .) (not (and $settings.ignoreJobs $settings.ignoreCronJobs)) -}}true{{- end -}}
{{- else if $set -}}true{{- end -}}
{{- end -}}

{{/* Whether Argo Rollouts are served: as set, else in all namespaces with hotmap's defaults. */}}
{{- define "hotmap.servesRollouts" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $set := $settings.isArgoRollouts -}}
{{- if kindIs "invalid" $set -}}{{- $set = and $settings.watchGlobally (not (include "hotmap.compat" .)) -}}{{- end -}}
{{- if $set -}}true{{- end -}}
{{- end -}}

{{/* The rules for everybody's objects, in all namespaces or in each served one; of a shadow, to read. */}}
{{- define "hotmap.rules" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $ignored := list -}}
{{- if $settings.ignoreSecrets -}}{{- $ignored = append $ignored "secrets" -}}{{- end -}}
{{- if $settings.ignoreConfigMaps -}}{{- $ignored = append $ignored "configmaps" -}}{{- end -}}
{{- if $settings.ignoreJobs -}}{{- $ignored = append $ignored "jobs" -}}{{- end -}}
{{- if $settings.ignoreCronJobs -}}{{- $ignored = append $ignored "cronjobs" -}}{{- end -}}
{{- if not (include "hotmap.servesRollouts" .) -}}{{- $ignored = append $ignored "rollouts" -}}{{- end -}}
{{- $rules := .Files.Get (printf "files/rules/%s.yaml" (ternary "cluster" "namespace" $settings.watchGlobally)) | fromYamlArray -}}
{{- if and (include "hotmap.servesRollouts" .) (not $settings.watchGlobally) -}}
{{- $rules = concat $rules (.Files.Get "files/rules/argo-rollouts.yaml" | fromYamlArray) -}}
{{- end -}}
{{- range $rule := $rules -}}
{{- $resources := $rule.resources -}}
{{- range $ignored -}}{{- $resources = without $resources . -}}{{- end -}}
{{- $verbs := $rule.verbs -}}
{{- if $settings.shadow -}}{{- $verbs = without $verbs "create" "patch" -}}{{- end -}}
{{- if and $resources $verbs }}
- {{ set (set (deepCopy $rule) "resources" $resources) "verbs" $verbs | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}
{{- if $settings.enableCSIIntegration }}
{{ .Files.Get "files/rules/csi.yaml" | fromYamlArray | toYaml }}
{{- end -}}
{{- if and (include "hotmap.changesJobs" .) (not $settings.shadow) }}
{{ .Files.Get "files/rules/jobs.yaml" | fromYamlArray | toYaml }}
{{- end -}}
{{- if and $settings.permissions.evict (not $settings.shadow) }}
{{ .Files.Get "files/rules/evict.yaml" | fromYamlArray | toYaml }}
{{- end -}}
{{- end -}}

{{/* The flag of each renamed annotation of Reloader. */}}
{{- define "hotmap.annotationFlags" -}}
configmap: configmap-annotation
secret: secret-annotation
auto: auto-annotation
configmap_auto: configmap-auto-annotation
secret_auto: secret-auto-annotation
ignore: ignore-annotation
search: auto-search-annotation
match: search-match-annotation
pausePeriod: pause-deployment-annotation
pauseTime: pause-deployment-time-annotation
{{- end -}}

{{/* The arguments of the controller. Output: a YAML list. */}}
{{- define "hotmap.arguments" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $arguments := list "controller" "--leader-elect" "--listen=:9533" -}}
{{- if and $settings.ignoreSecrets $settings.ignoreConfigMaps -}}
{{- fail "ignoreSecrets and ignoreConfigMaps cannot both be true: nothing would be followed" -}}
{{- end -}}
{{- if $settings.watchGlobally -}}
{{- if $settings.status.enabled -}}{{- $arguments = append $arguments "--status-listen=:9534" -}}{{- end -}}
{{- with $settings.ignoreNamespaces -}}{{- $arguments = append $arguments (printf "--namespaces-to-ignore=%s" .) -}}{{- end -}}
{{- with $settings.namespaceSelector -}}{{- $arguments = append $arguments (printf "--namespace-selector=%s" .) -}}{{- end -}}
{{- else -}}
{{- $namespaces := include "hotmap.namespaces" . -}}
{{- if eq $namespaces .Release.Namespace -}}
{{- $arguments = append $arguments "--watch-namespace=$(POD_NAMESPACE)" -}}
{{- else -}}{{- $arguments = append $arguments (printf "--namespaces=%s" $namespaces) -}}{{- end -}}
{{- end -}}
{{- if include "hotmap.compat" . -}}{{- $arguments = append $arguments "--reloader-compat" -}}{{- end -}}
{{- if $settings.shadow -}}{{- $arguments = append (without $arguments "--leader-elect") "--shadow" -}}{{- end -}}
{{- if $settings.autoReloadAll -}}{{- $arguments = append $arguments "--auto-reload-all=true" -}}{{- end -}}
{{- range $value, $flag := dict "isArgoRollouts" "is-Argo-Rollouts" "reloadOnCreate" "reload-on-create" "reloadOnDelete" "reload-on-delete" -}}
{{- $set := index $settings $value -}}
{{- if not (kindIs "invalid" $set) -}}{{- $arguments = append $arguments (printf "--%s=%t" $flag $set) -}}{{- end -}}
{{- end -}}
{{- if $settings.syncAfterRestart -}}{{- $arguments = append $arguments "--sync-after-restart=true" -}}{{- end -}}
{{- if $settings.enableCSIIntegration -}}{{- $arguments = append $arguments "--enable-csi-integration=true" -}}{{- end -}}
{{- with $settings.reloadStrategy -}}
{{- if ne . "default" -}}{{- $arguments = append $arguments (printf "--reload-strategy=%s" .) -}}{{- end -}}
{{- end -}}
{{- if $settings.ignoreSecrets -}}{{- $arguments = append $arguments "--resources-to-ignore=secrets" -}}{{- end -}}
{{- if $settings.ignoreConfigMaps -}}{{- $arguments = append $arguments "--resources-to-ignore=configmaps" -}}{{- end -}}
{{- if $settings.ignoreJobs -}}{{- $arguments = append $arguments "--ignored-workload-types=jobs" -}}{{- end -}}
{{- if $settings.ignoreCronJobs -}}{{- $arguments = append $arguments "--ignored-workload-types=cronjobs" -}}{{- end -}}
{{- with $settings.resourceLabelSelector -}}{{- $arguments = append $arguments (printf "--resource-label-selector=%s" .) -}}{{- end -}}
{{- with $settings.webhookUrl -}}{{- $arguments = append $arguments (printf "--webhook-url=%s" .) -}}{{- end -}}
{{- with $settings.logFormat -}}{{- $arguments = append $arguments (printf "--log-format=%s" (lower .)) -}}{{- end -}}
{{- with $settings.logLevel -}}
{{- if ne (lower .) "info" -}}{{- $arguments = append $arguments (printf "--log-level=%s" (lower .)) -}}{{- end -}}
{{- end -}}
{{- $flags := fromYaml (include "hotmap.annotationFlags" .) -}}
{{- range $name, $annotation := $settings.custom_annotations -}}
{{- if and $annotation (hasKey $flags $name) -}}
{{- $arguments = append $arguments (printf "--%s=%s" (get $flags $name) $annotation) -}}
{{- end -}}
{{- end -}}
{{- range $value, $flag := dict "follow" "follow" "settle" "settle" "settleMax" "settle-max" "workers" "workers" "flapLimit" "flap-limit" "podCheckRate" "pod-check-rate" -}}
{{- $set := index $settings $value -}}
{{- if not (or (kindIs "invalid" $set) (eq (toString $set) "")) -}}{{- $arguments = append $arguments (printf "--%s=%v" $flag $set) -}}{{- end -}}
{{- end -}}
{{- range $value, $flag := dict "leaseDuration" "lease-duration" "renewDeadline" "renew-deadline" "retryPeriod" "retry-period" -}}
{{- with get $settings.leaderElection $value -}}
{{- if not $settings.shadow -}}{{- $arguments = append $arguments (printf "--leader-election-%s=%s" $flag .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- concat $arguments ($settings.extraArgs | default list) | toYaml -}}
{{- end -}}

{{/* The environment variables of the controller. Output: a YAML list. */}}
{{- define "hotmap.environment" -}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- $settings := fromJson (include "hotmap.settings" .) }}
{{- $env := $settings.deployment.env | default dict }}
{{- if include "hotmap.compat" . }}
- name: RELOADER_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: RELOADER_DEPLOYMENT_NAME
  value: {{ include "hotmap.fullname" . }}
{{- end }}
{{- if and $settings.enableMetricsByNamespace (include "hotmap.compat" .) }}
- name: METRICS_COUNT_BY_NAMESPACE
  value: enabled
{{- end }}
{{- range $name, $value := $env.open }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $_ := $env.secret }}
- name: {{ $name | quote }}
  valueFrom: {secretKeyRef: {name: {{ include "hotmap.fullname" $ }}-env, key: {{ $name | quote }}}}
{{- end }}
{{- range $name, $path := $env.field }}
- name: {{ $name | quote }}
  valueFrom: {fieldRef: {fieldPath: {{ $path | quote }}}}
{{- end }}
{{- range $secret, $variables := $env.existing }}
{{- range $name, $key := $variables }}
- name: {{ $name | quote }}
  valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: {{ $key | quote }}}}
{{- end }}
{{- end }}
{{- end -}}

{{/* What is set and has no effect, with the reason; a line for each. */}}
{{- define "hotmap.ignored" -}}
{{- $settings := fromJson (include "hotmap.settings" .) -}}
{{- $ignored := list -}}
{{- $given := .Values.reloader | default dict -}}
{{- $reloaders := fromJson (include "hotmap.reloadersImage" .) -}}
{{- if $reloaders.all -}}
{{- $ignored = append $ignored "image: it is Reloader's; set image.repository and image.tag to hotmap's" -}}
{{- else -}}
{{- range $part := $reloaders.parts -}}{{- $ignored = append $ignored (printf "image.%s: it is Reloader's" $part) -}}{{- end -}}
{{- end -}}
{{- if ($settings.deployment.image | default dict) -}}
{{- $ignored = append $ignored "reloader.deployment.image: set image.repository and image.tag to hotmap's" -}}
{{- end -}}
{{- with (.Values.kubernetes | default dict).host -}}
{{- if ne . "https://kubernetes.default" -}}
{{- $ignored = append $ignored "kubernetes.host: the pod's own API server is used" -}}
{{- end -}}
{{- end -}}
{{- with .Values.namespace -}}
{{- if ne . $.Release.Namespace -}}
{{- $ignored = append $ignored (printf "namespace: the release's is used; install with --namespace=%s" .) -}}
{{- end -}}
{{- end -}}
{{- $reasons := dict
    "isOpenshift" "DeploymentConfigs are not served"
    "enablePProf" "there are no debug endpoints" -}}
{{- range $name, $reason := $reasons -}}
{{- if get $settings $name -}}{{- $ignored = append $ignored (printf "reloader.%s: %s" $name $reason) -}}{{- end -}}
{{- end -}}
{{- if and $given.enableHA (lt (include "hotmap.replicas" . | int) 2) -}}
{{- $ignored = append $ignored (printf "reloader.enableHA: replicas is %s" (include "hotmap.replicas" .)) -}}
{{- end -}}
{{- $podLabels := mergeOverwrite (dict) (.Values.deployment.labels | default dict) (($given.deployment | default dict).labels | default dict) -}}
{{- $matchLabels := mergeOverwrite (dict) (.Values.matchLabels | default dict) ($given.matchLabels | default dict) -}}
{{- range $place, $labels := dict "deployment.labels" $podLabels "matchLabels" $matchLabels -}}
{{- $effective := include "hotmap.ownLabelsOmitted" $labels | fromJson -}}
{{- range $label, $_ := $labels -}}
{{- if not (hasKey $effective $label) -}}{{- $ignored = append $ignored (printf "%s.%s: the chart sets it" $place $label) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $budget := $settings.podDisruptionBudget -}}
{{- if not (or (kindIs "invalid" $budget.minAvailable) (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- $ignored = append $ignored "podDisruptionBudget.maxUnavailable: minAvailable is set" -}}
{{- end -}}
{{- if and $settings.enableMetricsByNamespace (not (include "hotmap.compat" .)) -}}
{{- $ignored = append $ignored "enableMetricsByNamespace: Reloader's metrics exist with reloaderCompat" -}}
{{- end -}}
{{- if ($settings.legacy | default dict).rbac -}}
{{- $ignored = append $ignored "reloader.legacy.rbac: rbac.authorization.k8s.io/v1 is used" -}}
{{- end -}}
{{- range $name := list "gomaxprocsOverride" "gomemlimitOverride" -}}
{{- if get $settings.deployment $name -}}
{{- $ignored = append $ignored (printf "reloader.deployment.%s: hotmap is not written in Go" $name) -}}
{{- end -}}
{{- end -}}
{{- $flags := fromYaml (include "hotmap.annotationFlags" .) -}}
{{- range $name, $_ := $settings.custom_annotations -}}
{{- if not (hasKey $flags $name) -}}{{- $ignored = append $ignored (printf "reloader.custom_annotations.%s: unknown" $name) -}}{{- end -}}
{{- end -}}
{{- if not $settings.watchGlobally -}}
{{- range $name := list "ignoreNamespaces" "namespaceSelector" -}}
{{- if get $settings $name -}}{{- $ignored = append $ignored (printf "%s: not all namespaces are watched (watchGlobally)" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Helm leaves out values whose default is null. */ -}}
{{- $known := concat (keys (omit .Values "reloader" "global" "kubernetes" "namespace" "nameOverride" "fullnameOverride" "reloaderCompat")) (keys $reasons)
    (list "isArgoRollouts" "reloadOnCreate" "reloadOnDelete" "workers" "flapLimit" "podCheckRate" "replicas")
    (list "legacy" "readOnlyRootFileSystem" "pprofAddr") -}}
{{- range $name, $_ := $given -}}
{{- if not (has $name $known) -}}{{- $ignored = append $ignored (printf "reloader.%s: unknown" $name) -}}{{- end -}}
{{- end -}}
{{- $known = concat (keys .Values.deployment) (list "replicas" "revisionHistoryLimit" "hostUsers" "image" "gomaxprocsOverride" "gomemlimitOverride") -}}
{{- range $name, $_ := ($given.deployment | default dict) -}}
{{- if not (has $name $known) -}}{{- $ignored = append $ignored (printf "reloader.deployment.%s: unknown" $name) -}}{{- end -}}
{{- end -}}
{{- range $place := list "env" "pod" -}}
{{- $known = keys (get $.Values.deployment $place) -}}
{{- range $name, $_ := (get ($given.deployment | default dict) $place | default dict) -}}
{{- if not (has $name $known) -}}{{- $ignored = append $ignored (printf "reloader.deployment.%s.%s: unknown" $place $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- join "\n" ($ignored | uniq | sortAlpha) -}}
{{- end -}}
