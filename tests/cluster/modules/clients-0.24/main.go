// Uses an API server as programs in Go do: typed clients, caches, server-side apply, leader
// election. Prints a line for each step that worked.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const namespace = "default"

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check("kubeconfig", err)
	// Requests and answers in protobuf where the server can.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	clients, err := kubernetes.NewForConfig(config)
	check("clientset", err)
	typedClient(ctx, clients)
	informer(ctx, clients)
	elect(ctx, clients)
	manager(ctx)
}

func typedClient(ctx context.Context, clients kubernetes.Interface) {
	maps := clients.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-"},
		Data:       map[string]string{"a": "1"},
	}, metav1.CreateOptions{})
	check("create", err)
	made.Data["a"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check("update", err)
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	expect("stale update conflicts", apierrors.IsConflict(err))
	_, err = maps.Patch(ctx, made.Name, types.MergePatchType, []byte(`{"data":{"b":"1"}}`), metav1.PatchOptions{})
	check("patch", err)
	applied, err := maps.Apply(ctx, corev1apply.ConfigMap(made.Name, namespace).WithData(map[string]string{"c": "1"}), metav1.ApplyOptions{FieldManager: "one"})
	check("apply", err)
	expect("apply merges", applied.Data["b"] == "1" && applied.Data["c"] == "1")
	_, err = maps.Apply(ctx, corev1apply.ConfigMap(made.Name, namespace).WithData(map[string]string{"c": "2"}), metav1.ApplyOptions{FieldManager: "two"})
	expect("apply conflicts", apierrors.IsConflict(err))
	extracted, err := corev1apply.ExtractConfigMap(applied, "one")
	check("extract", err)
	expect("extract finds the owner's fields", len(extracted.Data) == 1)
	check("delete", maps.Delete(ctx, made.Name, metav1.DeleteOptions{}))
	_, err = maps.Get(ctx, made.Name, metav1.GetOptions{})
	expect("deleted is gone", apierrors.IsNotFound(err))
}

func informer(ctx context.Context, clients kubernetes.Interface) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	seen := make(chan string, 10)
	watched := factory.Core().V1().Secrets().Informer()
	_, err := watched.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "add " + obj.(*corev1.Secret).Name },
		UpdateFunc: func(_, obj any) { seen <- "update " + obj.(*corev1.Secret).Name },
		DeleteFunc: func(any) { seen <- "delete" },
	})
	check("event handler", err)
	factory.Start(ctx.Done())
	expect("cache syncs", cache.WaitForCacheSync(ctx.Done(), watched.HasSynced))
	secrets := clients.CoreV1().Secrets(namespace)
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{})
	check("create secret", err)
	made.StringData = map[string]string{"a": "b"}
	_, err = secrets.Update(ctx, made, metav1.UpdateOptions{})
	check("update secret", err)
	check("delete secret", secrets.Delete(ctx, "watched", metav1.DeleteOptions{}))
	for _, wanted := range []string{"add watched", "update watched", "delete"} {
		expect("informer sees "+wanted, <-seen == wanted)
	}
}

func elect(ctx context.Context, clients kubernetes.Interface) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	led := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "clients"},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
	}
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(led) },
			OnStoppedLeading: func() {},
		},
	})
	select {
	case <-led:
		expect("leader elected", true)
	case <-ctx.Done():
		expect("leader elected", false)
	}
}

// A controller as those of operators: envtest with an existing cluster, a manager with a cache, an
// owned object that is made again.
func manager(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	existing := true
	environment := &envtest.Environment{UseExistingCluster: &existing}
	config, err := environment.Start()
	check("envtest", err)
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	check("manager", err)
	copied := client.ObjectKey{Namespace: namespace, Name: "source-copy"}
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		source := &corev1.ConfigMap{}
		if err := manager.GetClient().Get(ctx, request.NamespacedName, source); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if source.Name != "source" {
			return reconcile.Result{}, nil
		}
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source-copy"}}
		_, err := controllerutil.CreateOrUpdate(ctx, manager.GetClient(), made, func() error {
			made.Data = source.Data
			return controllerutil.SetControllerReference(source, made, manager.GetScheme())
		})
		return reconcile.Result{}, err
	})
	check("controller", ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).Complete(reconciler))
	go func() { check("manager runs", manager.Start(ctx)) }()
	direct, err := client.New(config, client.Options{})
	check("client", err)
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"}, Data: map[string]string{"a": "1"}}
	check("create source", direct.Create(ctx, source))
	wait(ctx, "controller copies", func() bool { return copyHas(ctx, direct, copied, "1") })
	source.Data["a"] = "2"
	check("update source", direct.Update(ctx, source))
	wait(ctx, "controller follows", func() bool { return copyHas(ctx, direct, copied, "2") })
	check("delete copy", direct.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source-copy"}}))
	wait(ctx, "controller makes it again", func() bool { return copyHas(ctx, direct, copied, "2") })
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	check("list of metadata", direct.List(ctx, list, client.InNamespace(namespace)))
	expect("metadata is alone", len(list.Items) > 0 && list.Items[0].Name != "")
	check("delete source", direct.Delete(ctx, source, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	wait(ctx, "garbage is collected", func() bool {
		return apierrors.IsNotFound(direct.Get(ctx, copied, &corev1.ConfigMap{}))
	})
	check("envtest stops", environment.Stop())
}

func copyHas(ctx context.Context, from client.Client, key client.ObjectKey, wanted string) bool {
	found := &corev1.ConfigMap{}
	return from.Get(ctx, key, found) == nil && found.Data["a"] == wanted
}

func wait(ctx context.Context, what string, done func() bool) {
	for !done() {
		select {
		case <-ctx.Done():
			expect(what, false)
		case <-time.After(50 * time.Millisecond):
		}
	}
	expect(what, true)
}

func check(what string, err error) {
	if err != nil {
		fmt.Printf("FAILED %s: %v\n", what, err)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func expect(what string, ok bool) {
	if !ok {
		fmt.Println("FAILED", what)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}
