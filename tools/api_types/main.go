// Command api-types prints what the Go types of the built-in kinds say about their fields, as JSON.
//
// The facts are those of struct tags: names in JSON, numbers in protobuf, whether a field is a
// pointer or may be left out, and the merge keys of strategic merge patches.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
)

// Field is one field of an object in JSON; the fields of inlined structs are their parent's.
type Field struct {
	Number    []int    `json:"number,omitempty"`
	Type      string   `json:"type"`
	Pointer   bool     `json:"pointer,omitempty"`
	Omitempty bool     `json:"omitempty,omitempty"`
	Omitzero  bool     `json:"omitzero,omitempty"`
	Strategy  []string `json:"patch_strategy,omitempty"`
	MergeKey  string   `json:"patch_merge_key,omitempty"`
}

// Kind says which type an object of a group, version and kind has.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
}

// Types whose JSON form is not that of their fields.
var leaves = map[string]bool{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   true,
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":   true,
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":   true,
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    true,
}

var (
	stable = regexp.MustCompile(`^v[12]$`)
	types  = map[string]map[string]Field{}
)

func name(t reflect.Type) string {
	path := t.PkgPath()
	path = strings.Replace(path, "k8s.io/", "io/k8s/", 1)
	return strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

func typeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if t.Name() != "" { // a message of its own, with the elements as its first field
			return "wrapped[]" + typeOf(t.Elem())
		}
		return "[]" + typeOf(t.Elem())
	case reflect.Map:
		return "{}" + typeOf(t.Elem())
	case reflect.Struct:
		if !leaves[name(t)] {
			add(t)
		}
		return "#" + name(t)
	default:
		if t.Name() != t.Kind().String() {
			return t.Kind().String() + " " + t.String()
		}
		return t.Kind().String()
	}
}

func add(t reflect.Type) {
	if _, known := types[name(t)]; known {
		return
	}
	fields := map[string]Field{}
	types[name(t)] = fields
	collect(t, []int{}, fields)
}

// A field without a number, and all inside of it, is no part of the message: outer is nil then.
func collect(t reflect.Type, outer []int, fields map[string]Field) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		var number []int
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(parts) > 1 && outer != nil {
			n, err := strconv.Atoi(parts[1])
			if err != nil {
				panic(err)
			}
			number = append(append([]int{}, outer...), n)
		}
		tag := strings.Split(f.Tag.Get("json"), ",")
		if tag[0] == "-" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if tag[0] == "" && inner.Kind() == reflect.Struct {
			collect(inner, number, fields)
			continue
		}
		field := Field{Number: number, Type: typeOf(f.Type), Pointer: f.Type.Kind() == reflect.Pointer}
		for _, option := range tag[1:] {
			field.Omitempty = field.Omitempty || option == "omitempty"
			field.Omitzero = field.Omitzero || option == "omitzero"
		}
		if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
			field.Strategy = strings.Split(strategy, ",")
		}
		field.MergeKey = f.Tag.Get("patchMergeKey")
		fields[tag[0]] = field
	}
}

func main() {
	kinds := []Kind{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		own := strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || gvk.Kind == "DeleteOptions"
		if !own || !stable.MatchString(gvk.Version) || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		if strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "DeleteOptions" {
			continue
		}
		add(t)
		kinds = append(kinds, Kind{gvk.Group, gvk.Version, gvk.Kind, name(t)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"kinds": kinds, "types": types}); err != nil {
		panic(err)
	}
}
