// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naeel/sless/hack/internal/daemon"
	"github.com/naeel/sless/hack/internal/progress"
)

const (
	// waitPoll is how often a condition is looked at, tryTimeout bounds one look.
	waitPoll   = 200 * time.Millisecond
	tryTimeout = 5 * time.Second
	// waitLimit bounds each wait. A machine that has to do other things needs far longer than the usual few seconds.
	waitLimit = 4 * time.Minute
)

// waitFor looks until probe succeeds. A part that ends in the meantime is started again once (it may have been on its
// way out when this command found it running); when it ends again, waiting ends too, since nothing will change any
// more. The error holds the last answer, or the end of the log of the part that ended.
func (u *up) waitFor(
	ctx context.Context, say progress.Say, needs []daemon.Spec, probe func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitLimit, errors.New("gave up waiting"))
	defer cancel()
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	restarted := map[string]bool{}
	for {
		tryCtx, cancelTry := context.WithTimeout(ctx, tryTimeout)
		last := probe(tryCtx)
		cancelTry()
		if last == nil {
			return nil
		}
		say("waiting: %v", last)
		if err := u.revive(ctx, needs, restarted); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// revive starts parts again that have ended, each of them once.
func (u *up) revive(ctx context.Context, specs []daemon.Spec, restarted map[string]bool) error {
	daemons := u.daemons()
	for _, spec := range specs {
		if _, ok := daemons.Find(spec.Name); ok {
			continue
		}
		if restarted[spec.Name] {
			return fmt.Errorf("%s stopped; the end of %s:\n%s",
				spec.Name, daemons.LogFile(spec.Name), daemons.LogTail(spec.Name))
		}
		restarted[spec.Name] = true
		if err := u.ensure(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// client makes a client with the rights of an administrator.
func (c *Cluster) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.paths.kubeconfig(certAdmin))
	if err != nil {
		return nil, err
	}
	config.Timeout = tryTimeout
	return kubernetes.NewForConfig(config)
}

func apiReady(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		answer, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw()
		return readyProblem(string(answer), err)
	}
}

// readyProblem shortens the answer of the API server, which lists some forty checks, to those that fail.
func readyProblem(answer string, err error) error {
	var failing []string
	for line := range strings.Lines(answer) {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			check, _, _ = strings.Cut(check, " ")
			failing = append(failing, check)
		}
	}
	if err != nil && len(failing) > 0 {
		return fmt.Errorf("the API server is not ready: %s", strings.Join(failing, ", "))
	}
	return err
}

// nodeReady also wants the state to be newer than since: after a restart the API server still has the old one.
func nodeReady(client kubernetes.Interface, since time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nodeProblem(node, since)
	}
}

func nodeProblem(node *corev1.Node, since time.Time) error {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady
	})
	if at < 0 {
		return errors.New("the node has not reported yet")
	}
	ready := node.Status.Conditions[at]
	if ready.Status != corev1.ConditionTrue {
		return fmt.Errorf("the node is not ready: %s", ready.Message)
	}
	// Times in the API have whole seconds.
	if ready.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
		return errors.New("the node has not reported since the kubelet was started")
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return fmt.Errorf("the node still has the taint %s", taint.Key)
		}
	}
	return nil
}

func deploymentAvailable(client kubernetes.Interface, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return deploymentProblem(d)
	}
}

func deploymentProblem(d *appsv1.Deployment) error {
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < *d.Spec.Replicas ||
		s.AvailableReplicas < *d.Spec.Replicas {
		return fmt.Errorf("deployment %s has %d of %d pods available", d.Name, s.AvailableReplicas, *d.Spec.Replicas)
	}
	return nil
}

// dnsAnswers asks the cluster's DNS for the API server, as a pod would.
func dnsAnswers(ctx context.Context) error {
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(dnsService, "53"))
		},
	}
	addrs, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+domain+".")
	if err != nil {
		return err
	}
	if !slices.Contains(addrs, apiService) {
		return fmt.Errorf("the cluster's DNS answers %v for the API server", addrs)
	}
	return nil
}
