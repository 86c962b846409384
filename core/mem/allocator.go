package mem

import (
	"cmp"
	"slices"

	"github.com/launch-ml/launch/core/unit"
)

// What PyTorch's caching allocator is made of (c10/cuda/CUDACachingAllocator.h, the same from 1.13 to 2.11).
const (
	minBlock     = 512           // kMinBlockSize: requests are rounded up to it
	smallSize    = 1 * unit.MiB  // kSmallSize: the largest request of the small pool
	smallSegment = 2 * unit.MiB  // kSmallBuffer
	largeSegment = 20 * unit.MiB // kLargeBuffer: the segment of requests below minLarge
	minLarge     = 10 * unit.MiB // kMinLargeAlloc
	roundLarge   = 2 * unit.MiB  // kRoundLarge: what larger segments are rounded up to
)

// An Allocator is PyTorch's caching allocator on one card and one stream: what it reserves of the driver for a sequence of
// requests. It repeats DeviceCachingAllocator of c10/cuda/CUDACachingAllocator.cpp function by function, without the
// options in [Caching.Other] and without the pools of CUDA graphs.
type Allocator struct {
	Caching
	// Limit is what the driver has to give; before the allocator asks for more it returns what it has cached. 0 is no
	// limit. It goes beyond the limit where the program would fail, so that by how much is known.
	Limit unit.Bytes

	// Coarse takes the small pool for one piece without gaps: its requests are many, and where they hold next to nothing
	// of the card, so do the gaps between them.
	Coarse bool

	small, large pool
	piece, held  unit.Bytes // of a coarse small pool: in use, and reserved
	blocks       []block
	idle         []int32 // names of blocks that were merged into others
	usage        Usage
	now          Usage
	brim         brim
}

// A brim is what is called once, before the first request that reserves more in all than so many bytes: nothing has been
// done for it yet.
type brim struct {
	bytes unit.Bytes
	f     func()
}

func (a *Allocator) whenFull(bytes unit.Bytes, f func()) { a.brim = brim{bytes, f} }

// mayFill is asked before n more are reserved, and before anything is changed.
func (a *Allocator) mayFill(n unit.Bytes) {
	if a.brim.bytes > 0 && a.now.Reserved+n > a.brim.bytes {
		f := a.brim.f
		a.brim = brim{}
		if f != nil {
			f()
		}
	}
}

// reset makes it a new allocator in the same memory.
func (a *Allocator) reset() {
	a.small.free.clear()
	a.large.free.clear()
	*a = Allocator{
		blocks: a.blocks[:0], idle: a.idle[:0],
		small: pool{free: a.small.free, unmapped: a.small.unmapped[:0]}, large: pool{free: a.large.free, unmapped: a.large.unmapped[:0]},
	}
}

// as makes it a copy of b in its own memory.
func (a *Allocator) as(b *Allocator) {
	own := *a
	*a = *b
	a.blocks, a.idle, a.brim = append(own.blocks[:0], b.blocks...), append(own.idle[:0], b.idle...), brim{}
	a.small.as(&own.small, &b.small)
	a.large.as(&own.large, &b.large)
}

// as makes it a copy of q in the memory of own.
func (p *pool) as(own, q *pool) {
	*p = *q
	p.free = own.free
	p.free.as(&q.free)
	p.unmapped = append(own.unmapped[:0], q.unmapped...)
}

// Usage is what a sequence of requests came to at its fullest: each at its own moment.
type Usage struct {
	Allocated unit.Bytes // torch.cuda.max_memory_allocated: blocks in use, rounded
	Reserved  unit.Bytes // torch.cuda.max_memory_reserved: segments
}

// A pool is a BlockPool: free blocks by size, then address.
type pool struct {
	free     freeList
	page     unit.Bytes // of an expandable segment
	first    int32      // the first block of the expandable segment; 0 before there is one
	unmapped []int32    // its blocks without memory, by address
	end      unit.Bytes // the address behind the last segment
}

// A block is a piece of a segment, in the list of its segment.
type block struct {
	addr, size   unit.Bytes
	prev, next   int32 // 0 for none
	small        bool
	used, mapped bool
}

// endless is the address space of an expandable segment, which the driver gives without memory behind it.
const endless = unit.Bytes(1) << 50

func (a *Allocator) pool(b *block) *pool {
	if b.small {
		return &a.small
	}
	return &a.large
}

// Usage returns what the requests so far came to.
func (a *Allocator) Usage() Usage { return a.usage }

// Held is what it has reserved now.
func (a *Allocator) Held() unit.Bytes { return a.now.Reserved }

// GiveBack is torch.cuda.empty_cache: whole segments that nothing is in go back to the driver.
func (a *Allocator) GiveBack() {
	a.release(&a.small)
	a.release(&a.large)
}

// Ask is malloc: it gives a block for so many bytes, at least one. The block's name is for Free.
func (a *Allocator) Ask(bytes unit.Bytes) int32 {
	if len(a.blocks) == 0 {
		if cap(a.blocks) == 0 {
			a.blocks = make([]block, 0, 4096)
		}
		a.blocks = append(a.blocks, block{}) // 0 is none
		a.small.page, a.large.page = smallSegment, largeSegment
	}
	size := rounded(bytes)
	if a.Coarse && size <= smallSize {
		n := (a.piece + size + smallSegment - 1) / smallSegment * smallSegment
		more := n > a.held
		if more {
			a.mayFill(n - a.held)
		}
		a.piece += size
		a.allocated(size)
		if more {
			a.makeRoom(n - a.held)
			a.reserve(n - a.held)
			a.held = n
		}
		return -int32(size / minBlock)
	}
	p := &a.large
	if size <= smallSize {
		p = &a.small
	}
	id := a.freeBlock(p, size)
	if id == 0 {
		if a.Expandable {
			id = a.expand(p, size)
		} else {
			id = a.segment(p, size)
		}
	}
	a.split(p, id, size)
	b := &a.blocks[id]
	b.used = true
	a.allocated(b.size)
	return id
}

// rounded is round_size.
func rounded(bytes unit.Bytes) unit.Bytes {
	return (max(bytes, 1) + minBlock - 1) / minBlock * minBlock
}

func (a *Allocator) allocated(size unit.Bytes) {
	a.now.Allocated += size
	a.usage.Allocated = max(a.usage.Allocated, a.now.Allocated)
}

// Free is free: the block is cached, together with free neighbours.
func (a *Allocator) Free(id int32) {
	if id < 0 { // a piece of a coarse pool
		size := unit.Bytes(-id) * minBlock
		a.piece -= size
		a.now.Allocated -= size
		return
	}
	b := &a.blocks[id]
	b.used = false
	a.now.Allocated -= b.size
	p := a.pool(b)
	id = a.merge(p, id, b.prev)
	id = a.merge(p, id, a.blocks[id].next)
	a.insert(p, id)
}

// freeBlock is get_free_block: the smallest cached block that serves.
func (a *Allocator) freeBlock(p *pool, size unit.Bytes) int32 {
	if !a.Expandable && a.MaxSplit == 0 {
		id, _ := p.free.pop(size)
		return id
	}
	at := p.free.serving(size)
	if at.nowhere() {
		return 0
	}
	id := p.free.at(at).id
	// A block before unmapped space counts as large as it can grow: another one is preferred.
	if grows := func(id int32) bool {
		next := a.blocks[id].next
		return next != 0 && !a.blocks[next].mapped
	}; grows(id) {
		if other := p.free.next(at); !other.nowhere() && !grows(p.free.at(other).id) {
			at, id = other, p.free.at(other).id
		}
	}
	if a.spares(a.blocks[id].size, size) {
		return 0
	}
	p.free.take(at)
	return id
}

// spares reports whether a cached block of one size is kept from a request of another: an oversize one from what is smaller,
// and from what is oversize itself where more than a segment would be lost on it.
func (a *Allocator) spares(block, size unit.Bytes) bool {
	switch {
	case a.MaxSplit == 0:
		return false
	case size < a.MaxSplit:
		return block >= a.MaxSplit
	}
	return block >= size+largeSegment
}

// remove takes a block from the free ones.
func (a *Allocator) remove(p *pool, id int32) { p.free.remove(a.blocks[id].size, a.blocks[id].addr) }

// segment is alloc_block: a new segment of get_allocation_size.
func (a *Allocator) segment(p *pool, size unit.Bytes) int32 {
	n := (size + roundLarge - 1) / roundLarge * roundLarge
	switch {
	case size <= smallSize:
		n = smallSegment
	case size < minLarge:
		n = largeSegment
	}
	a.mayFill(n)
	if a.full(n) && a.MaxSplit > 0 {
		a.giveBack(p, size)
	}
	a.makeRoom(n)
	a.reserve(n)
	id := a.add(block{addr: p.end, size: n, small: size <= smallSize, mapped: true})
	p.end += n
	return id
}

// full reports whether the driver would not have n more.
func (a *Allocator) full(n unit.Bytes) bool { return a.Limit > 0 && a.now.Reserved+n > a.Limit }

// giveBack is release_available_cached_blocks: an oversize segment that is large enough for the request goes back to the driver,
// or several, the largest first, if together they are. (Of a request below the bound no block that large is left but oversize ones:
// another would have served it.)
func (a *Allocator) giveBack(p *pool, size unit.Bytes) {
	cached := p.free.all()
	at, _ := slices.BinarySearchFunc(cached, size, func(f free, size unit.Bytes) int { return cmp.Compare(f.size, size) })
	if at < len(cached) {
		a.returned(p, cached[at])
		return
	}
	for sum := unit.Bytes(0); at > 0 && sum < size && cached[at-1].size >= a.MaxSplit; at-- {
		sum += cached[at-1].size
		a.returned(p, cached[at-1])
	}
}

// returned is release_block: the driver has the segment back.
func (a *Allocator) returned(p *pool, f free) {
	a.now.Reserved -= f.size
	a.idle = append(a.idle, f.id)
	p.free.remove(f.size, f.addr)
}

// makeRoom is release_cached_blocks, where the driver would not have n more.
func (a *Allocator) makeRoom(n unit.Bytes) {
	if a.full(n) {
		if n := (a.piece + smallSegment - 1) / smallSegment * smallSegment; n < a.held {
			a.now.Reserved -= a.held - n
			a.held = n
		}
		a.release(&a.small)
		a.release(&a.large)
	}
}

func (a *Allocator) reserve(n unit.Bytes) {
	a.now.Reserved += n
	a.usage.Reserved = max(a.usage.Reserved, a.now.Reserved)
}

// release is release_blocks: segments without a block in use go back to the driver, and of an expandable one the pages
// that lie within free blocks (unmap_block).
func (a *Allocator) release(p *pool) {
	if a.Expandable {
		cached := p.free.all()
		p.free.clear()
		for _, f := range cached {
			a.unmap(p, f.id)
		}
		return
	}
	for _, f := range p.free.all() {
		if b := &a.blocks[f.id]; b.prev == 0 && b.next == 0 {
			a.returned(p, f)
		}
	}
}

// split is alloc_found_block's: what a block has beyond the size stays free, if should_split says so.
func (a *Allocator) split(p *pool, id int32, size unit.Bytes) {
	rest := a.blocks[id].size - size
	if rest < minBlock || !a.Expandable && !a.blocks[id].small && (rest <= smallSize || a.MaxSplit > 0 && size >= a.MaxSplit) {
		return
	}
	a.insert(p, a.cut(id, size))
}

// cut makes a block of what stands behind the first size bytes of another, of the same kind.
func (a *Allocator) cut(id int32, size unit.Bytes) int32 {
	rest := a.name()
	b, r := &a.blocks[id], &a.blocks[rest]
	r.addr, r.size, r.small, r.used, r.mapped = b.addr+size, b.size-size, b.small, false, b.mapped
	r.prev, r.next = id, b.next
	if b.next != 0 {
		a.blocks[b.next].prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

func (a *Allocator) add(b block) int32 {
	id := a.name()
	a.blocks[id] = b
	return id
}

// name is that of a block to come.
func (a *Allocator) name() int32 {
	if n := len(a.idle); n > 0 {
		id := a.idle[n-1]
		a.idle = a.idle[:n-1]
		return id
	}
	a.blocks = append(a.blocks, block{})
	return int32(len(a.blocks) - 1)
}

// merge is try_merge_blocks: id takes in its free neighbour. It returns the block that is left.
func (a *Allocator) merge(p *pool, id, other int32) int32 {
	if other == 0 || a.blocks[other].used || a.blocks[other].mapped != a.blocks[id].mapped {
		return id
	}
	if a.blocks[other].mapped {
		a.remove(p, other)
	} else {
		p.unmapped = slices.DeleteFunc(p.unmapped, func(u int32) bool { return u == other })
	}
	first, second := id, other
	if a.blocks[other].addr < a.blocks[id].addr {
		first, second = other, id
	}
	a.idle = append(a.idle, second)
	f, s := &a.blocks[first], &a.blocks[second]
	f.size += s.size
	f.next = s.next
	if s.next != 0 {
		a.blocks[s.next].prev = first
	}
	return first
}

func (a *Allocator) insert(p *pool, id int32) {
	p.free.insert(free{a.blocks[id].size, a.blocks[id].addr, id})
}

// expand is try_allocate_expandable_block: the first place of the segment with room for size, of free and unmapped
// blocks, is mapped as far as it has to be.
func (a *Allocator) expand(p *pool, size unit.Bytes) int32 {
	pages := (size + p.page - 1) / p.page * p.page
	a.mayFill(pages)
	if p.first == 0 {
		p.first = a.add(block{size: endless, small: p == &a.small})
		p.unmapped = append(p.unmapped, p.first)
	}
	a.makeRoom(pages)
	id := a.place(p, size)
	if !a.blocks[id].mapped {
		id = a.mapBlock(p, id, min(a.blocks[id].size, size))
	}
	for a.blocks[id].size < size {
		next := a.blocks[id].next
		id = a.mapBlock(p, next, min(size-a.blocks[id].size, a.blocks[next].size))
	}
	a.remove(p, id)
	return id
}

// place is find_expandable_block.
func (a *Allocator) place(p *pool, size unit.Bytes) int32 {
	for _, id := range p.unmapped {
		if prev := a.blocks[id].prev; prev != 0 && !a.blocks[prev].used {
			id = prev
		}
		room := unit.Bytes(0)
		for b := id; b != 0 && !a.blocks[b].used && room < size; b = a.blocks[b].next {
			room += a.blocks[b].size
		}
		if room >= size {
			return id
		}
	}
	return 0 // never: the last one is endless
}

// mapBlock is map_block: whole pages for the first size bytes of an unmapped block, which joins its free neighbours.
func (a *Allocator) mapBlock(p *pool, id int32, size unit.Bytes) int32 {
	size = min((size+p.page-1)/p.page*p.page, a.blocks[id].size)
	a.reserve(size)
	at := slices.Index(p.unmapped, id)
	if size < a.blocks[id].size {
		p.unmapped[at] = a.cut(id, size)
	} else {
		p.unmapped = slices.Delete(p.unmapped, at, at+1)
	}
	a.blocks[id].mapped = true
	id = a.merge(p, id, a.blocks[id].prev)
	id = a.merge(p, id, a.blocks[id].next)
	a.insert(p, id)
	return id
}

// unmap is unmap_block: the pages that lie within a free block go back, what is left of it at both ends stays.
func (a *Allocator) unmap(p *pool, id int32) {
	b := a.blocks[id]
	from, to := (b.addr+p.page-1)/p.page*p.page, (b.addr+b.size)/p.page*p.page
	if to <= from {
		a.insert(p, id)
		return
	}
	if from > b.addr {
		inner := a.cut(id, from-b.addr)
		a.insert(p, id)
		id = inner
	}
	if end := b.addr + b.size; end > to {
		a.insert(p, a.cut(id, to-from))
	}
	a.now.Reserved -= to - from
	a.blocks[id].mapped = false
	id = a.merge(p, id, a.blocks[id].prev)
	id = a.merge(p, id, a.blocks[id].next)
	i, _ := slices.BinarySearchFunc(p.unmapped, a.blocks[id].addr, func(u int32, at unit.Bytes) int { return cmp.Compare(a.blocks[u].addr, at) })
	p.unmapped = slices.Insert(p.unmapped, i, id)
}
