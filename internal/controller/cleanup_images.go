// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/naming"
)

const (
	// imageMark begins the IDs of images among the marks of a namespace.
	imageMark = "image/"
	// maxTags is about the most tags of a repository that are looked at.
	maxTags = 5000
	// refusedPause is how long a registry that refused to delete is left alone.
	refusedPause = 6 * time.Hour
)

// errBlocked says that the registry does not let anything be removed.
var errBlocked = errors.New("the registry refuses to delete images")

// visit is what was found in a repository, so that the next pass need not ask again while nothing has changed.
type visit struct {
	// fingerprint is of the images that were needed of the repository then.
	fingerprint string
	// at is when the visit was, and seen when a pass thought of it last.
	at, seen time.Time
	// unfinished means that the bounds of the pass ended it.
	unfinished bool
	// empty means that there was nothing of the namespace.
	empty bool
	// digests are the images behind the tags. owners are the namespaces for which images were made, by digest.
	digests map[string]string
	owners  map[string]string
}

// cleanImages removes the images of a namespace that nothing has needed for long enough.
func (c *cleaner) cleanImages(ctx context.Context, n *namespaceSweep) error {
	host := c.config.Registry.Host
	n.emptyRepositories, n.repositoryOf = map[string]bool{}, map[string]string{}
	n.dependencies = naming.DependencyRepository(host, n.namespace)
	// deleted are the times at which Functions of a repository were found deleted.
	deleted := map[string][]string{n.dependencies: nil}
	for _, fn := range n.functions {
		repository := naming.CodeRepository(host, n.namespace, fn.Name)
		n.repositoryOf[fn.Name] = repository
		deleted[repository] = nil
	}
	for name, at := range n.record.deleted {
		repository := naming.CodeRepository(host, n.namespace, name)
		n.repositoryOf[name] = repository
		deleted[repository] = append(deleted[repository], at)
		deleted[n.dependencies] = append(deleted[n.dependencies], at)
	}
	n.record.dropMarks(maps.Keys(deleted))
	if n.now.Before(c.refusedUntil) {
		return nil
	}
	var problems []error
	for _, repository := range slices.Sorted(maps.Keys(deleted)) {
		if n.registryDown || n.now.Before(c.refusedUntil) {
			break
		}
		slices.Sort(deleted[repository])
		fingerprint := naming.Hash(slices.Concat(n.usage.ImagesIn(repository), deleted[repository])...)
		problems = append(problems, c.cleanRepository(ctx, n, repository, fingerprint))
	}
	return errors.Join(problems...)
}

// imageGroup begins the IDs of the images in a repository.
func imageGroup(repository string) string { return imageMark + path.Base(repository) + "@" }

// cleanRepository removes what it may from one repository. It asks the registry nothing when the same images are needed as
// at the last visit and nothing is due, but at least once in a time of grace.
func (c *cleaner) cleanRepository(ctx context.Context, n *namespaceSweep, repository, fingerprint string) error {
	v := c.visitOf(n, repository)
	group := imageGroup(repository)
	marks := n.record.marked(group)
	if v.fingerprint == fingerprint && !v.unfinished && n.now.Sub(v.at) < c.config.Cleanup.Grace.Duration &&
		!anyBefore(marks, c.since(n.sweep)) {
		n.emptyRepositories[repository] = v.empty
		n.unneededImages += len(marks)
		return nil
	}
	images, err := c.listImages(ctx, n, repository, v)
	if err == nil && !v.unfinished {
		err = c.judgeImages(ctx, n, repository, v, images)
	}
	if err != nil {
		n.registryDown = image.IsUnavailable(err) || image.IsRefused(err)
		v.unfinished = true
		return err
	}
	if !v.unfinished {
		v.at, v.fingerprint = n.now, fingerprint
		n.emptyRepositories[repository] = v.empty
	}
	return nil
}

func anyBefore(marks map[string]time.Time, since time.Time) bool {
	for _, at := range marks {
		if !at.After(since) {
			return true
		}
	}
	return false
}

func (c *cleaner) visitOf(n *namespaceSweep, repository string) *visit {
	key := n.namespace + " " + repository
	v := c.visits[key]
	if v == nil {
		v = &visit{}
		c.visits[key] = v
	}
	if v.digests == nil || n.now.Sub(v.at) >= c.config.Cleanup.Grace.Duration && !v.unfinished {
		v.digests, v.owners = map[string]string{}, map[string]string{} // tags may have moved
	}
	v.seen = n.now
	return v
}

// forgetVisits forgets repositories that no pass will come to again.
func (c *cleaner) forgetVisits(s *sweep) {
	maps.DeleteFunc(c.visits, func(_ string, v *visit) bool { return !v.seen.Equal(s.now) })
}

// listImages gives the images of a repository with their tags. When the requests of the pass are used up, the visit is
// unfinished, and the next pass goes on with what this one has found.
func (c *cleaner) listImages(ctx context.Context, n *namespaceSweep, repository string, v *visit) ([]plan.RegistryImage, error) {
	if v.unfinished = !n.mayAsk(); v.unfinished {
		return nil, nil
	}
	tags, err := c.images.Tags(ctx, repository, maxTags)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(v.digests, func(tag, _ string) bool { return !slices.Contains(tags, tag) })
	byDigest := map[string]*plan.RegistryImage{}
	for _, tag := range tags {
		digest, known := v.digests[tag]
		if !known {
			if v.unfinished = !n.mayAsk(); v.unfinished {
				return nil, nil
			}
			found := false
			if digest, found, err = c.images.Exists(ctx, repository+":"+tag); err != nil {
				return nil, err
			}
			if !found {
				continue // removed meanwhile
			}
			v.digests[tag] = digest
		}
		if byDigest[digest] == nil {
			byDigest[digest] = &plan.RegistryImage{Repository: repository, Digest: digest}
		}
		byDigest[digest].Tags = append(byDigest[digest].Tags, tag)
	}
	images := make([]plan.RegistryImage, 0, len(byDigest))
	for _, digest := range slices.Sorted(maps.Keys(byDigest)) {
		images = append(images, *byDigest[digest])
	}
	return images, nil
}

// mayAsk takes one of the requests that a pass may make to look around in the registry.
func (s *sweep) mayAsk() bool {
	s.visits--
	return s.visits >= 0
}

// judgeImages marks and removes images of a repository. Images that were made for another namespace, or not by sless, are
// not looked at: names of repositories are ambiguous, labels of images are not.
func (c *cleaner) judgeImages(
	ctx context.Context, n *namespaceSweep, repository string, v *visit, images []plan.RegistryImage,
) error {
	group := imageGroup(repository)
	state := plan.CleanupState{
		Marks: n.record.marked(group), Room: n.record.room(group), Now: n.now, Grace: c.config.Cleanup.Grace.Duration,
	}
	byID := map[string]plan.RegistryImage{}
	for _, img := range images {
		owner, err := c.ownerOf(ctx, n, &img, v)
		if err != nil || v.unfinished {
			return err
		}
		if owner != n.namespace {
			continue
		}
		id := group + img.Digest
		byID[id] = img
		needed := !img.MadeBySless() || n.usage.NeedsImage(img)
		if !needed {
			n.unneededImages++
		}
		state.Items = append(state.Items, plan.CleanupItem{ID: id, Needed: needed})
	}
	v.empty = len(state.Items) == 0
	next := plan.NextCleanup(state)
	n.record.setMarks(group, next.Marks)
	var problems []error
	for _, id := range next.Remove {
		if n.removals <= 0 || n.registryDown || n.now.Before(c.refusedUntil) {
			break
		}
		img := byID[id]
		err := c.removeImage(ctx, n, &img, v)
		c.metrics.failed(cleanupImages, err)
		if !errors.Is(err, errBlocked) {
			n.registryDown = image.IsUnavailable(err)
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// ownerOf gives the namespace for which an image was made, or nothing. A dependency image without a label is that of the
// repository's namespace: images of code always have one, and no two namespaces share a repository for their dependencies.
func (c *cleaner) ownerOf(ctx context.Context, n *namespaceSweep, img *plan.RegistryImage, v *visit) (string, error) {
	if owner, known := v.owners[img.Digest]; known {
		return owner, nil
	}
	if v.unfinished = !n.mayAsk(); v.unfinished {
		return "", nil
	}
	labels, err := c.images.Labels(ctx, img.Reference())
	if image.IsUnavailable(err) {
		return "", err
	}
	owner := labels[v1alpha1.LabelNamespace]
	if err == nil && owner == "" && img.Repository == n.dependencies {
		owner = n.namespace
	}
	v.owners[img.Digest] = owner
	return owner, nil
}

// removeImage removes an image with all its tags, unless it is needed after all. Removing by digest takes the image from
// every tag, so all of them are looked at first.
func (c *cleaner) removeImage(ctx context.Context, n *namespaceSweep, img *plan.RegistryImage, v *visit) error {
	if err := c.refresh(ctx, n); err != nil {
		return err
	}
	if n.usage.NeedsImage(*img) {
		return nil
	}
	logger := log.FromContext(ctx).WithValues("image", img.Reference())
	if c.config.Cleanup.DryRun {
		logger.Info("Would remove an image that no Function needs", "tags", img.Tags)
		return nil
	}
	var names []string
	for _, name := range img.Names() {
		names = append(names, imageClaim(name))
	}
	done, ok := c.claims.remove(c.since(n.sweep), names...)
	if !ok {
		return nil
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	for _, tag := range img.Tags {
		digest, _, err := c.images.Exists(ctx, img.Repository+":"+tag)
		if err != nil {
			return err
		}
		if digest != img.Digest {
			delete(v.digests, tag) // It has moved, and is judged anew.
			return nil
		}
	}
	if err := c.deleteImage(ctx, n, img); err != nil {
		return err
	}
	logger.V(1).Info("Removed an image that no Function needs", "tags", img.Tags)
	n.removals--
	n.imagesRemoved++
	n.unneededImages--
	c.metrics.removed.WithLabelValues(cleanupImages).Inc()
	c.metrics.blocked.WithLabelValues(cleanupImages).Set(0)
	return nil
}

func (c *cleaner) deleteImage(ctx context.Context, n *namespaceSweep, img *plan.RegistryImage) error {
	for _, name := range img.Names() {
		c.known.forget(knownImage, name)
	}
	err := c.images.Delete(ctx, img.Reference())
	if image.IsRefused(err) {
		c.refusedUntil = n.now.Add(refusedPause)
		c.metrics.blocked.WithLabelValues(cleanupImages).Set(1)
		log.FromContext(ctx).Info("The registry refuses to delete images, so none are removed for a while",
			"registry", c.config.Registry.Host, "pause", refusedPause, "error", err.Error())
		return errBlocked
	}
	if err != nil {
		return err
	}
	// Most registries have dropped the tags with the image. Some keep them, and some know no way to remove a tag alone.
	for _, tag := range img.Tags {
		if err := c.images.Delete(ctx, img.Repository+":"+tag); err != nil && !image.IsRefused(err) {
			return err
		}
	}
	return nil
}
