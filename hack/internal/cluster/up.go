// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naeel/sless/hack/internal/daemon"
	"github.com/naeel/sless/hack/internal/pki"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

//go:embed templates/coredns.yaml.tmpl
var corednsTemplate string

// stopGrace is how long a part may take to stop.
const stopGrace = 10 * time.Second

// Up brings the cluster up: it installs, builds, and starts what is missing, and leaves alone what is there. It can be
// stopped at any moment and run again. When a check fails it has changed nothing.
func (c *Cluster) Up(ctx context.Context) error {
	f, unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.checkUp(); err != nil {
		return err
	}
	if f.leftBehind() {
		c.Out.Printf("Removing what the cluster of %s has left behind", f.owner)
		if err := c.remove(ctx); err != nil {
			return err
		}
	}
	u := &up{Cluster: c}
	return u.run(ctx)
}

// begin looks at the machine while no other command works on its cluster. unlock lets others work again.
func (c *Cluster) begin(ctx context.Context) (f facts, unlock func(), err error) {
	if err := (facts{goos: goos(), root: os.Geteuid() == 0}).checkMachine(); err != nil {
		return facts{}, nil, err
	}
	unlock, err = lock(ctx, lockPath, func(format string, args ...any) { c.Out.Printf(format, args...) })
	if err != nil {
		return facts{}, nil, err
	}
	if f, err = c.gather(); err != nil {
		unlock()
		return facts{}, nil, err
	}
	return f, unlock, nil
}

// up is one run of Up with what its steps hand on.
type up struct {
	*Cluster

	tools      tools
	certs      *certificates
	mtu        int
	nameserver bool
	started    []string
	// parts are all parts that this run has started or found.
	parts []daemon.Spec
}

func (u *up) run(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context, progress.Say) (string, error)
	}{
		{"Debian packages", installPackages},
		{"etcd program", u.build(toolcache.Etcd, &u.tools.etcd)},
		{"Kubernetes programs", u.build(toolcache.Kubernetes, &u.tools.kubernetes)},
		{"CoreDNS program", u.build(toolcache.CoreDNS, &u.tools.coredns)},
		{"State folder", u.prepareState},
		{"Network", u.network},
		{"Certificates and configuration", u.configure},
		{"containerd", u.containerd},
		{"Images of the node", u.images},
		{"Control plane", u.controlPlane},
		{"Node", u.node},
		{"DNS", u.dns},
	} {
		err := u.Out.Step(step.title, func(say progress.Say) (string, error) { return step.run(ctx, say) })
		if err != nil {
			return err
		}
	}
	if err := writeKubeconfig(u.Kubeconfig(), u.certs, certAdmin); err != nil {
		return err
	}
	u.Out.Printf("The cluster is up. Use it with: export KUBECONFIG=%s", u.Kubeconfig())
	return nil
}

// build makes the step that builds a group of programs.
func (u *up) build(name string, dir *string) func(context.Context, progress.Say) (string, error) {
	return func(ctx context.Context, say progress.Say) (result string, err error) {
		group, err := toolcache.Named(u.Checkout, name)
		if err != nil {
			return "", err
		}
		*dir, result, err = u.buildGroup(ctx, group, say)
		return result, err
	}
}

// prepareState claims the state folder and throws away what did not survive a restart of the machine.
func (u *up) prepareState(context.Context, progress.Say) (string, error) {
	boot, err := u.proc.Boot()
	if err != nil {
		return "", err
	}
	if err := u.claim(); err != nil {
		return "", err
	}
	before, err := os.ReadFile(u.paths.boot())
	result := u.paths.state
	if err == nil && strings.TrimSpace(string(before)) != boot {
		result += ", from before a restart of the machine"
		if err := unmountBelow(u.paths.run(), mountTable); err != nil {
			return "", err
		}
		if err := os.RemoveAll(u.paths.run()); err != nil {
			return "", err
		}
	}
	for _, dir := range []string{u.paths.run(), u.paths.conf(), u.paths.data(), u.paths.logs()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	return result, pki.WriteFile(u.paths.boot(), []byte(boot+"\n"), 0o644)
}

func (u *up) network(ctx context.Context, _ progress.Say) (string, error) {
	u.mtu = defaultMTU(ctx)
	return fmt.Sprintf("%s has %s, MTU %d", bridge, NodeIP, u.mtu), u.setUpNetwork(ctx, u.mtu)
}

func (u *up) configure(context.Context, progress.Say) (string, error) {
	var err error
	if u.certs, err = u.makeCertificates(); err != nil {
		return "", err
	}
	if err := u.writeKubeconfigs(u.certs); err != nil {
		return "", err
	}
	if u.nameserver, err = u.writeResolvConf(); err != nil {
		return "", err
	}
	cni, ok := cniDir()
	if !ok {
		return "", fmt.Errorf("no CNI plugins in %s", strings.Join(cniDirs(), " or "))
	}
	files := append(u.paths.containerdFiles(cni, fmt.Sprint(u.mtu)), u.paths.kubeletFiles(u.certs)...)
	return "", writeAll(files)
}

// ensure starts the parts that do not run as they should.
func (u *up) ensure(ctx context.Context, specs ...daemon.Spec) error {
	for _, spec := range specs {
		started, err := u.daemons().Ensure(ctx, spec, stopGrace)
		if err != nil {
			return err
		}
		if started && !slices.Contains(u.started, spec.Name) {
			u.started = append(u.started, spec.Name)
		}
		same := func(s daemon.Spec) bool { return s.Name == spec.Name }
		if !slices.ContainsFunc(u.parts, same) {
			u.parts = append(u.parts, spec)
		}
	}
	return nil
}

// report tells which of the parts were started in this run.
func (u *up) report(names ...string) string {
	var started []string
	for _, name := range u.started {
		if slices.Contains(names, name) {
			started = append(started, name)
		}
	}
	if len(started) == 0 {
		return "running"
	}
	return "started " + strings.Join(started, ", ")
}

func (u *up) containerd(ctx context.Context, say progress.Say) (string, error) {
	spec, err := u.containerdSpec()
	if err != nil {
		return "", err
	}
	if err := u.ensure(ctx, spec); err != nil {
		return "", err
	}
	err = u.waitFor(ctx, say, u.parts, func(ctx context.Context) error {
		_, err := u.ctr(ctx, "version")
		return err
	})
	return u.report(partContainerd), err
}

func (u *up) images(ctx context.Context, say progress.Say) (string, error) {
	files, err := u.nodeImages(ctx, u.tools)
	if err != nil {
		return "", err
	}
	loaded, err := u.Load(ctx, say, files...)
	return fmt.Sprintf("%d loaded, %d present", loaded, len(files)-loaded), err
}

func (u *up) controlPlane(ctx context.Context, say progress.Say) (string, error) {
	if err := u.ensure(ctx, u.etcdSpec(u.tools, u.certs), u.apiServerSpec(u.tools, u.certs)); err != nil {
		return "", err
	}
	client, err := u.client()
	if err != nil {
		return "", err
	}
	if err := u.waitFor(ctx, say, u.parts, apiReady(client)); err != nil {
		return "", err
	}
	err = u.ensure(ctx, u.managerSpec(u.tools, u.certs), u.schedulerSpec(u.tools, u.certs))
	return u.report(partEtcd, partAPIServer, partManager, partScheduler), err
}

func (u *up) node(ctx context.Context, say progress.Say) (string, error) {
	since := u.Now()
	if err := u.ensure(ctx, u.kubeletSpec(u.tools, u.certs), u.proxySpec(u.tools)); err != nil {
		return "", err
	}
	result := u.report(partKubelet, partProxy)
	if !strings.Contains(result, partKubelet) {
		since = time.Time{}
	}
	client, err := u.client()
	if err != nil {
		return "", err
	}
	return result, u.waitFor(ctx, say, u.parts, nodeReady(client, since))
}

// dns installs CoreDNS and waits for its answers.
func (u *up) dns(ctx context.Context, say progress.Say) (string, error) {
	image, err := u.coreDNSImage()
	if err != nil {
		return "", err
	}
	objects, err := render(corednsTemplate, map[string]any{
		"Domain": domain, "DNS": dnsService, "Image": image, "Forward": u.nameserver,
	})
	if err != nil {
		return "", err
	}
	if _, err := command(ctx, string(objects), filepath.Join(u.tools.kubernetes, "kubectl"),
		flag("kubeconfig", u.paths.kubeconfig(certAdmin)), "apply", "--server-side", "--force-conflicts",
		"--field-manager=sless-cluster", "-f", "-"); err != nil {
		return "", err
	}
	client, err := u.client()
	if err != nil {
		return "", err
	}
	if err := u.waitFor(ctx, say, u.parts, deploymentAvailable(client, "kube-system", "coredns")); err != nil {
		return "", err
	}
	return dnsService + " answers", u.waitFor(ctx, say, u.parts, dnsAnswers)
}
